"""Chromium without a window, for tests of pages: what it complains about, and what it asks the network for."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


@contextmanager
def chromium() -> Iterator[Chrome]:
    """A browser of its own, closed afterwards; the test is skipped where there is none."""
    pytest.importorskip("selenium", reason="the page is looked at with selenium: pip install -e '.[dev]'")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver: apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*_QUIET, f"--user-data-dir={folder}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield browser
        finally:
            browser.quit()


def resize(browser: Chrome, width: int, height: int) -> None:
    """Make the page as wide as a screen; below 600 a phone's, which one touches."""
    phone = width < 600
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone},
    )
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})


def prefer(browser: Chrome, scheme: str) -> None:
    """What the system prefers: light or dark."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def complaints(browser: Chrome) -> list[str]:
    """Errors and warnings of the console since the last call."""
    return [str(entry["message"]) for entry in browser.get_log("browser")]


def requests(browser: Chrome) -> list[str]:
    """Addresses the browser asked for since the last call; its own pages, those on disk and data inside them aside."""
    messages: list[dict[str, Any]] = [
        json.loads(entry["message"])["message"] for entry in browser.get_log("performance")
    ]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [
        url for url in sent if not url.startswith(("data:", "blob:", "file:", "chrome:", "chrome-untrusted:", "about:"))
    ]
