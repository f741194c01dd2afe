"""A headless Chromium that opens pages, watches what they do, and keeps pictures of them."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
# Ignored by git; for people, with SCREENSHOTS=1 in the environment.
PICTURES = ROOT / ".regauge" / "screenshots"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Opened:
    """A page, and what it did that a report must not do."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])
    files: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        page = self.page
        page.set_default_timeout(15_000)
        page.on("request", lambda request: self.requests.append(request.url.split("#")[0]))
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        page.on("popup", lambda _: self.complaints.append("popup"))

    def go(self, file: Path, address: str) -> None:
        """Open a file as in a browser that has not seen it."""
        if self.requests:
            self.page.evaluate("localStorage.clear()")
            self.page.goto("about:blank")
        self.requests.clear()
        self.files = {file.as_uri()}
        self.page.goto(f"{file.as_uri()}{address}")

    def follow(self, name: str, to: Path) -> None:
        """Click a link that leads to another file of the report."""
        self.page.get_by_role("link", name=name, exact=True).first.click()
        self.page.wait_for_url(f"{to.as_uri()}#/**")
        self.files.add(to.as_uri())

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def ids(self) -> list[str]:
        """The cases that the table of the page in sight shows, from its top."""
        links = self.page.locator("section.view:not([hidden]) tr.row th a")
        return links.evaluate_all("links => links.map(link => link.dataset.id)")

    def picture(self, name: str) -> None:
        if not os.environ.get("SCREENSHOTS"):
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


class Browsing:
    """A browser from its first page until `close`.

    Attributes:
        idle: Pages that run scripts and that no test uses: to open one takes longer than to load a
            file.
    """

    def __init__(self) -> None:
        self.idle: list[Opened] = []
        self._browser: Browser | None = None
        self._open = ExitStack()

    def new_page(self, *, scripts: bool) -> Page:
        if self._browser is None:
            path = next(filter(None, map(shutil.which, _NAMES)), None)
            if path is None:
                why = "no Chromium on this machine: `make browser`, or apt-get install chromium"
                if os.environ.get("CI"):
                    pytest.fail(why)
                pytest.skip(why)
            playwright = self._open.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(
                executable_path=path,
                chromium_sandbox=os.geteuid() != 0,
                args=["--disable-gpu", "--disable-software-rasterizer"],
            )
            self._open.callback(self._browser.close)
        return self._browser.new_context(java_script_enabled=scripts).new_page()

    def close(self) -> None:
        self.idle.clear()
        self._browser = None
        self._open.close()


_BROWSING = pytest.StashKey[Browsing]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Close the browser after the last test of this directory.

    While it is open its event loop counts as running, which async tests cannot have.
    """
    try:
        return (yield)
    finally:
        if _BROWSING in item.config.stash and (
            nextitem is None or Path(__file__).parent not in nextitem.path.parents
        ):
            item.config.stash[_BROWSING].close()


@pytest.fixture(scope="session")
def browsing(pytestconfig: pytest.Config) -> Browsing:
    return pytestconfig.stash.setdefault(_BROWSING, Browsing())


@pytest.fixture
def opened(browsing: Browsing) -> Iterator[Callable[..., Opened]]:
    """Opens a file; at the end none of its pages may have asked for or complained of anything."""
    met: list[tuple[Opened, bool]] = []

    def opens(
        file: Path,
        address: str = "",
        *,
        color_scheme: Literal["light", "dark"] = "light",
        width: int = 1280,
        scripts: bool = True,
    ) -> Opened:
        if browsing.idle and scripts:
            seen = browsing.idle.pop()
        else:
            seen = Opened(browsing.new_page(scripts=scripts))
        seen.page.set_viewport_size({"width": width, "height": 900})
        seen.page.emulate_media(media="null", color_scheme=color_scheme)
        seen.go(file, address)
        met.append((seen, scripts))
        return seen

    yield opens
    for seen, scripts in met:
        assert seen.complaints == []
        assert all(url.startswith("file://") and url.endswith(".html") for url in seen.requests)
        assert set(seen.requests) == seen.files
        if scripts:
            browsing.idle.append(seen)
        else:
            seen.page.context.close()
