# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for one test run, and what the tests do with a page: press, click a cell, read numbers, wait for a file."""
import json
import pathlib
import sys
import time
import unittest

CHROMIUM = "/usr/bin/chromium"
CHROMEDRIVER = "/usr/bin/chromedriver"
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en", "--disable-background-networking",
             "--force-color-profile=srgb")


def skip(what):
    print(f"skipped: {what} is not here; apt-get install chromium chromium-driver python3-selenium fonts-noto-cjk")
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys  # noqa: F401, for the tests
except ImportError:
    skip("selenium")
for program in (CHROMIUM, CHROMEDRIVER):
    if not pathlib.Path(program).exists():
        skip(program)


class Browser:
    latest = None

    def __init__(self, downloads, width=1400, height=1000):
        Browser.latest = self
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(CHROMEDRIVER), options=options)
        self.downloads = pathlib.Path(downloads)
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
        self.size(width, height)

    def close(self):
        self.driver.quit()

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, path, place=""):
        """Opens a page afresh; returns the seconds until it is ready and all of its cells are drawn."""
        self.driver.get("about:blank")
        began = time.monotonic()
        self.driver.get(pathlib.Path(path).resolve().as_uri() + (f"#{place}" if place else ""))
        self.until("return document.documentElement.dataset.ready === 'true'")
        self.drawn()
        return time.monotonic() - began

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(script)
            if value:
                return value
            time.sleep(0.01)
        raise AssertionError(f"never true: {script}")

    def drawn(self):
        self.until("return [...document.querySelectorAll('.heat')].every((one) => one.dataset.drawn === 'true')")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector)

    def text(self, selector):
        return self.js("const one = document.querySelector(arguments[0]); return one ? one.textContent : null", selector)

    def press(self, selector):
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.find(selector).click()

    def choose(self, select, value):
        self.js("const one = document.getElementById(arguments[0]); one.value = arguments[1]; one.dispatchEvent(new Event('change'))",
                select, str(value))

    def keys(self, *keys, at=None):
        if at:
            self.js("const one = document.querySelector(arguments[0]); one.focus(); if (one.select) one.select()", at)
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def stage(self, name):
        self.press(f"[data-stage={name}]")
        self.drawn()

    def stages(self):
        return self.js("return [...document.querySelectorAll('#stage-list button')].map((one) => one.dataset.stage)")

    def stage_now(self):
        return self.js("return document.querySelector('#stage-list [aria-current]').dataset.stage")

    def click_cell(self, panel, i, j):
        """A real click in the middle of a cell that can be seen; the page tells its geometry."""
        canvas = self.find(f".heat[data-panel={panel}] canvas")
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        left, top, wide, high = self.js("""const one = arguments[0].closest('.heat'), place = one.dataset.geometry.split(' ').map(Number);
            const scroll = one.querySelector('.heat-scroll');
            return [place[0] - scroll.scrollLeft, place[1] - scroll.scrollTop, place[2], place[3]]""", canvas)
        box = canvas.rect
        x, y = left + (j + 0.5) * wide, top + (i + 0.5) * high
        ActionChains(self.driver).move_to_element_with_offset(canvas, x - box["width"] / 2, y - box["height"] / 2).click().perform()

    def saved(self, selector, suffix, seconds=20):
        """Presses a button and returns the file that it saves."""
        for old in self.downloads.glob(f"attn-*{suffix}"):
            old.unlink()
        self.press(selector)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            new = list(self.downloads.glob(f"attn-*{suffix}"))
            if new and new[0].stat().st_size > 0:
                return new[0]
            time.sleep(0.02)
        raise AssertionError(f"{selector} saved no {suffix}")

    def numbers(self):
        """The matrix of the stage as the page saves it, read before it reaches the disk."""
        self.js("""if (!window.madeFiles) {
            window.madeFiles = [];
            const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => { window.madeFiles.push(blob.text()); return make(blob); };
        }
        document.getElementById('save-json').click();""")
        text = self.driver.execute_async_script("const done = arguments[0]; setTimeout(() => window.madeFiles.pop().then(done), 0)")
        return json.loads(text)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Every address that the pages asked for since the last call."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls


class QuietTest(unittest.TestCase):
    """While it runs, the pages of the browser that was opened last complain of nothing and ask nobody for anything."""

    def setUp(self):
        Browser.latest.complaints()
        Browser.latest.requests()

    def tearDown(self):
        self.assertEqual(Browser.latest.complaints(), [])
        away = [url for url in Browser.latest.requests() if not url.startswith(("file:", "data:", "blob:", "about:"))]
        self.assertEqual(away, [])
