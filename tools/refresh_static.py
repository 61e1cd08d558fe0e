"""Refresh the third-party files of the web UI and their manifest.

    python tools/refresh_static.py            # the version of the manifest
    python tools/refresh_static.py 6.1.0      # another version of ECharts

Fetch the package through npm, copy the built file with its LICENSE and NOTICE, and write name, version, origin, licence
and SHA-256 of each file to locust_realism/web/static/vendor/MANIFEST.json.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "locust_realism" / "web" / "static" / "vendor"
MANIFEST = VENDOR / "MANIFEST.json"
COPIED = {
    "package/dist/echarts.common.min.js": "echarts.common.min.js",
    "package/LICENSE": "LICENSE",
    "package/NOTICE": "NOTICE",
}


def fetch(version: str, folder: Path) -> dict[str, bytes]:
    """Return the copied files of one ECharts release."""
    command = ["npm", "pack", "--silent", f"echarts@{version}"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        members = {name: archive.extractfile(name) for name in COPIED}
        return {COPIED[name]: member.read() for name, member in members.items() if member is not None}


def main() -> None:
    """Write the files and the manifest."""
    current = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {"packages": [{"version": "6.1.0"}]}
    version = sys.argv[1] if len(sys.argv) > 1 else current["packages"][0]["version"]
    with tempfile.TemporaryDirectory() as folder:
        files = fetch(version, Path(folder))
    home = VENDOR / "echarts"
    home.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (home / name).write_bytes(content)
    package = {
        "name": "echarts",
        "version": version,
        "origin": f"https://registry.npmjs.org/echarts/-/echarts-{version}.tgz",
        "license": "Apache-2.0",
        "files": {f"echarts/{name}": hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
    }
    MANIFEST.write_text(json.dumps({"packages": [package]}, indent=2) + "\n")
    print(f"echarts {version}: {len(files)} files, listed in {MANIFEST}")


if __name__ == "__main__":
    main()
