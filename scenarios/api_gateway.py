"""Applications that call an API through a gateway, with tokens.

    locust -f scenarios/api_gateway.py -u 25 -r 25 --think-time 0.005     # on a gateway that starts with Locust
    locust -f scenarios/api_gateway.py --host https://gateway.example:8243 --api-path /pizzashack/1.0.0/menu

After "Performance Testing With a Think Time" (DZone, on WSO2 API Manager). Each user is an application that requests a
token by its client credentials (OAuth 2, RFC 6749 section 4.4), calls an API with it, thinks for 5, 25 or 50 ms on
average, and renews the token before it expires. Set the credentials in LOCUST_API_CLIENT_ID and
LOCUST_API_CLIENT_SECRET: other users of this machine can read a command line.
"""

from __future__ import annotations

import base64
import random
import time
from pathlib import Path

from locust import FastHttpUser, events, task
from locust.env import Environment

from locust_realism import install
from locust_realism.kit import Option, embedded_target, preflight, reachable, scenario_options, think_time_options

REFRESHED = (0.6, 0.9)
"""Bounds of the share of a token's lifetime after which it is renewed; drawn, so that not all renew at once."""


class Client(FastHttpUser):
    """An application with credentials of its own."""

    token: str | None = None
    refresh_at = 0.0

    def on_start(self) -> None:
        options = self.environment.parsed_options
        self.api, self.token_path = options.api_path, options.api_token_path
        pair = f"{options.api_client_id}:{options.api_client_secret}"
        self.credentials = "Basic " + base64.b64encode(pair.encode()).decode()

    @task
    def call(self) -> None:
        if time.monotonic() >= self.refresh_at:
            self.get_token()
        if self.token is None:
            return
        headers = {"Authorization": f"Bearer {self.token}"}
        with self.client.get(self.api, headers=headers, name="call", catch_response=True) as response:
            if response.status_code == 401:
                response.failure("401: the token is not accepted")
                self.refresh_at = 0.0

    def get_token(self) -> None:
        """Request a token; after a failure the next call requests one again."""
        requested = time.monotonic()
        self.token, self.refresh_at = None, 0.0
        headers = {"Authorization": self.credentials}
        form = {"grant_type": "client_credentials"}
        with self.client.post(self.token_path, form, headers=headers, name="token", catch_response=True) as response:
            if response.status_code != 200:
                return
            try:
                granted = response.json()
                self.token = str(granted["access_token"])
                self.refresh_at = requested + random.uniform(*REFRESHED) * float(granted.get("expires_in", 3600))
            except (ValueError, TypeError, KeyError) as error:
                self.token = None
                response.failure(f"200, but no token: {type(error).__name__}")


OPTIONS = (
    Option("--api-path", "/orders/v1/menu", "Path of the API on the gateway."),
    Option("--api-token-path", "/oauth2/token", "Path of the token endpoint.", in_ui=False),
    Option("--api-client-id", "trial", "Client id of the application.", in_ui=False),
    Option("--api-client-secret", "trial", "Client secret of the application.", in_ui=False, is_secret=True),
    Option("--api-insecure", False, "Accept any TLS certificate.", action="store_true", in_ui=False),
)


@events.test_start.add_listener
def set_up(environment: Environment, **_: object) -> None:
    assert environment.parsed_options is not None
    Client.insecure = environment.parsed_options.api_insecure


install()
scenario_options("API gateway scenario", OPTIONS)
preflight(reachable)
think_time_options(Client, mean=0.05)
embedded_target(Path(__file__).with_name("targets") / "api_gateway_server.py")
