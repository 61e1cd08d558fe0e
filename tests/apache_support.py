"""Private Apache with mod_dav for one test: files under /dav/, one account, a free port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from http_support import ask

from support import eventually, free_port

APACHE = shutil.which("apache2", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MODULES = Path("/usr/lib/apache2/modules")
USER, PASSWORD = "erika", "erikas own word"
CONFIGURATION = """
ServerName localhost
ServerRoot {root}
PidFile {root}/pid
Listen 127.0.0.1:{port}
ErrorLog {root}/error.log
DocumentRoot {root}/files
{owner}
{modules}
DavLockDB {root}/lock/db
Alias /dav {root}/files
<Location /dav>
    Dav On
    AuthType Basic
    AuthName files
    AuthUserFile {root}/users
    Require valid-user
</Location>
"""


@dataclass(frozen=True)
class Apache:
    """Address and file folder of a running Apache."""

    url: str
    files: Path


@contextmanager
def running_apache() -> Iterator[Apache]:
    """Run Apache in a process of its own until the end of the block; for root it serves as another user, as it must."""
    assert APACHE is not None
    # not a folder of pytest: the user that Apache serves as cannot read those
    with tempfile.TemporaryDirectory(prefix="apache-") as folder:
        root, port = Path(folder), free_port()
        url = f"http://127.0.0.1:{port}"
        configuration = _configure(root, port)
        with subprocess.Popen([APACHE, "-f", str(configuration), "-DFOREGROUND"], start_new_session=True) as process:
            try:
                eventually(lambda: _answers(url), because="Apache does not answer")
                yield Apache(url, root / "files")
            finally:
                process.terminate()
                process.wait(15)


def _configure(root: Path, port: int) -> Path:
    """Write folders, password file and configuration; return the path of the latter."""
    places = [root, root / "files", root / "lock"]
    for place in places[1:]:
        place.mkdir()
    hashed = b64encode(sha1(PASSWORD.encode()).digest()).decode()
    (root / "users").write_text(f"{USER}:{{SHA}}{hashed}\n")
    owner = ""
    if os.geteuid() == 0:
        account = next(entry for entry in pwd.getpwall() if entry.pw_name in ("www-data", "nobody"))
        owner = f"User {account.pw_name}\nGroup #{account.pw_gid}"
        for place in places:
            os.chown(place, account.pw_uid, account.pw_gid)
    names = "mpm_event auth_basic authn_core authn_file authz_core authz_user alias dav dav_fs"
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in names.split())
    configuration = root / "apache.conf"
    configuration.write_text(CONFIGURATION.format(root=root, port=port, owner=owner, modules=modules))
    return configuration


def _answers(url: str) -> bool:
    try:
        return ask("GET", f"{url}/dav/", timeout=2).status == 401
    except OSError:
        return False
