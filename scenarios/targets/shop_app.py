"""Small shop in plain WSGI: ten pages behind one front controller, compressed, with a session cookie and an upload.

``application`` runs on any WSGI server, to compare two of them (``waitress-serve --port 8080 shop_app:application``);
``shop_server.py`` puts stations with service times in front of it. Its own cost is rendering, compression and parsing,
as in the small application of the article that ``shop.py`` follows.
"""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from jinja2 import DictLoader, Environment
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

COOKIE = "JSESSIONID"
LARGEST_UPLOAD = 5_000_000
PRODUCTS = 200

RULES = Map(
    [
        Rule("/", endpoint="home", methods=["GET"]),
        Rule("/catalogue", endpoint="catalogue", methods=["GET"]),
        Rule("/product/<int:number>", endpoint="product", methods=["GET"]),
        Rule("/search", endpoint="search", methods=["GET"]),
        Rule("/basket", endpoint="basket", methods=["GET"]),
        Rule("/basket/add", endpoint="add", methods=["POST"]),
        Rule("/checkout", endpoint="checkout", methods=["POST"]),
        Rule("/account", endpoint="account", methods=["GET"]),
        Rule("/upload", endpoint="upload", methods=["POST"]),
        Rule("/help", endpoint="help", methods=["GET"]),
    ]
)
"""The ten pages by their endpoints."""

_LAYOUT = """<!DOCTYPE html><html lang="en"><head><title>{{ title }}</title></head><body><h1>{{ title }}</h1>
<p>Your basket holds {{ basket }} things.</p>
<ul>{% for item in items %}<li><a href="/product/{{ item.number }}">{{ item.name }}</a>
<p>{{ item.text }}</p><b>{{ '%0.2f' % item.price }}</b></li>{% endfor %}</ul><p>{{ text }}</p></body></html>"""


class Item(TypedDict):
    """Item of the stock."""

    number: int
    name: str
    price: int
    text: str


_templates = Environment(loader=DictLoader({"page": _LAYOUT}), autoescape=True)
_STOCK: list[Item] = [
    {"number": n, "name": f"Thing {n}", "price": 5 + n * 7 % 90, "text": f"Number {n} of our things. " * (3 + n % 5)}
    for n in range(PRODUCTS)
]


def match(environ: WSGIEnvironment) -> tuple[str, dict[str, int]]:
    """Return the endpoint of a request and its arguments; raises werkzeug's HTTPException for an unknown one."""
    endpoint, arguments = RULES.bind_to_environ(environ).match()
    return str(endpoint), dict(arguments)


def render(title: str, basket: int, items: list[Item], text: str = "") -> str:
    return _templates.get_template("page").render(title=title, basket=basket, items=items, text=text)


def page(endpoint: str, arguments: dict[str, int], request: Request) -> Response:
    """Return a page, without session and compression."""
    basket = int(request.cookies.get("basket", "0")) if request.cookies.get("basket", "0").isdecimal() else 0
    title, items, text = endpoint.capitalize(), _STOCK[:3], ""
    if endpoint == "catalogue":
        items = _STOCK[:60]
    elif endpoint == "product":
        if arguments["number"] >= PRODUCTS:
            raise NotFound("There is no such product")
        items = _STOCK[arguments["number"] :][:1]
    elif endpoint == "search":
        words = request.args.get("q", "").lower()
        items = [item for item in _STOCK if words in item["name"].lower()][:20]
    elif endpoint == "add":
        basket += 1
    elif endpoint == "checkout":
        text, basket = f"You have bought {basket} things.", 0
    elif endpoint == "upload":
        picture = request.files.get("picture")
        text = f"Thank you for a picture of {len(picture.read()) if picture else 0} bytes."
    response = Response(render(title, basket, items, text), mimetype="text/html")
    if endpoint in ("add", "checkout"):
        response.set_cookie("basket", str(basket))
    return response


def answer(request: Request, endpoint: str, arguments: dict[str, int]) -> Response:
    """Return a page with its session cookie, compressed where the client accepts it."""
    request.max_content_length = LARGEST_UPLOAD
    response = page(endpoint, arguments, request)
    if COOKIE not in request.cookies:
        response.set_cookie(COOKIE, secrets.token_hex(16), httponly=True)
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] > 0:
        response.data = gzip.compress(response.data, compresslevel=6, mtime=0)
        response.content_encoding = "gzip"
    return response


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer a request: the front controller."""
    try:
        return answer(Request(environ), *match(environ))(environ, start_response)
    except HTTPException as refusal:
        return refusal(environ, start_response)
