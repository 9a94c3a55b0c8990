"""The report page in a real browser: curves, hovering, choosing, sorting, light and dark, a phone, and no network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.report.browser import chromium, complaints, prefer, requests, resize
from tests.report.synthetic import Invented, write_grid, write_run
from top_erl.cli import main
from top_erl.report.records import RunRecord, collect

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

REACH, HOSTILE = "metaworld/reach-v3", "metaworld/</script><script>window.harm=1</script><img src=x onerror=harm=1>"
METHODS = ("top_erl", "tce", "ppo")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with a report, a task of a hostile name, and a folder that is damaged."""
    folder = tmp_path_factory.mktemp("page") / "runs &amp; <b>here"
    write_grid(folder, METHODS, [REACH], seeds=4)
    write_run(folder, Invented("top_erl", "metaworld/door-close-v3"))
    hostile = write_run(folder, Invented("tce", "metaworld/hostile"))
    for name in ("config.yaml", "fingerprint.json"):
        text = (hostile / name).read_text()
        (hostile / name).write_text(text.replace("task: metaworld/hostile", f"task: '{HOSTILE}'"))
    (folder / "torn").mkdir()
    (folder / "torn" / "metrics.csv").write_text("iteration,env_steps\n")
    assert main(["report", str(folder), "--no-figures"]) == 0
    return folder


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Chrome]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Chrome, runs: Path) -> Iterator[Chrome]:
    """The report, opened from disk as it is the first time; the console stays empty and the network untouched."""
    resize(shared_browser, 1280, 900)
    prefer(shared_browser, "light")
    empty = runs / "empty.html"  # files share what the browser remembers, and the report would write it again
    empty.touch()
    shared_browser.get(empty.as_uri())
    shared_browser.execute_script("sessionStorage.clear(); localStorage.clear();")
    _open(shared_browser, runs)
    yield shared_browser
    assert complaints(shared_browser) == []
    assert requests(shared_browser) == []
    assert shared_browser.execute_script("return window.harm === undefined")


def _open(browser: Chrome, folder: Path) -> None:
    browser.get((folder / "report" / "index.html").as_uri())


def _wait(condition: Callable[[], Any]) -> Any:
    """What a condition gives as soon as it gives something."""
    until = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < until, "the page did not change in 20 seconds"
        time.sleep(0.05)
    return found


def _curves(browser: Chrome) -> dict[str, list[Any]]:
    """Curves that are drawn, by name: the values of those whose line is on the screen."""
    return browser.execute_script("""
        const all = [...document.querySelectorAll("#plot .scatterlayer .trace")];
        const drawn = all.filter(trace => trace.querySelector("path.js-line"));
        const named = plot.data.filter(trace => trace.name);
        if (drawn.length < named.length) return {};
        return Object.fromEntries(named.map(trace => [trace.name, [trace.x, trace.y]]));
    """)


def _choose(browser: Chrome, control: str, value: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.select import Select

    Select(browser.find_element(By.ID, control)).select_by_value(value)


def _click(browser: Chrome, selector: str) -> None:
    from selenium.webdriver.common.by import By

    browser.find_element(By.CSS_SELECTOR, selector).click()


def _text(browser: Chrome, selector: str) -> str:
    return str(browser.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def _records(folder: Path, method: str, task: str = REACH) -> list[RunRecord]:
    return [run for run in collect([folder]).runs if run.method == method and run.task == task]


def test_curves_are_there_with_the_runs_numbers(browser: Chrome, runs: Path) -> None:
    _choose(browser, "task", REACH)
    _choose(browser, "statistic", "mean")
    curves = _wait(lambda: _curves(browser))
    assert set(curves) == {"TOP-ERL", "TCE", "PPO"}
    for name, method in (("TOP-ERL", "top_erl"), ("TCE", "tce")):
        own = [run.curve("evaluation_success") for run in _records(runs, method)]
        assert curves[name][0] == own[0][0].tolist()
        np.testing.assert_allclose(curves[name][1], np.mean([values for _, values in own], axis=0), rtol=1e-3)
    assert _text(browser, "h1") == "runs &amp; <b>here"


def test_hovering_tells_the_number(browser: Chrome, runs: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    _choose(browser, "task", REACH)
    _wait(lambda: _curves(browser))
    values = np.stack([run.curve("evaluation_success")[1] for run in _records(runs, "top_erl")])  # [runs, points]
    steps = _records(runs, "top_erl")[0].curve("evaluation_success")[0]
    expected = np.sort(values[:, 9])[1:3].mean()  # of four runs the middle two
    plot = browser.find_element(By.ID, "plot")
    where = browser.execute_script(
        "const {xaxis: x, yaxis: y} = plot._fullLayout; const box = plot.getBoundingClientRect();"
        "return [x._offset + x.l2p(arguments[0]) - box.width / 2, y._offset + y.l2p(arguments[1]) - box.height / 2]",
        *(float(steps[9]), float(expected)),
    )
    ActionChains(browser).move_to_element_with_offset(plot, *map(round, where)).perform()
    label = _wait(lambda: _text(browser, "#plot .hoverlayer"))
    assert f"TOP-ERL : {100 * expected:.1f}%" in label
    assert "4 runs" in label
    assert f"{steps[9]:,.0f} environment steps" in label
    assert label.index("TOP-ERL") < label.index("TCE") < label.index("PPO")  # as in the legend


def test_no_button_sends_anything_away(browser: Chrome) -> None:
    _wait(lambda: _curves(browser))
    buttons = browser.execute_script("return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert buttons == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    assert (
        browser.execute_script("return fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    )
    assert any("Content Security Policy" in complaint for complaint in complaints(browser))


def test_a_method_is_hidden_and_shown_again(browser: Chrome) -> None:
    _wait(lambda: len(_curves(browser)) == 3)
    _click(browser, ".method[data-label='TCE']")
    _wait(lambda: set(_curves(browser)) == {"TOP-ERL", "PPO"})
    assert browser.execute_script("return document.querySelector('.method[data-label=TCE]').ariaPressed") == "false"
    _click(browser, ".method[data-label='TCE']")
    _wait(lambda: len(_curves(browser)) == 3)


@pytest.mark.parametrize(("axis", "title"), [("episodes", "episodes"), ("minutes", "minutes of computing")])
def test_the_horizontal_axis_can_be_chosen(browser: Chrome, runs: Path, axis: Any, title: str) -> None:
    _choose(browser, "task", REACH)
    _choose(browser, "axis", axis)
    _wait(lambda: _text(browser, "#plot .xtitle") == title)
    last = min(run.curve("evaluation_success", axis)[0][-1] for run in _records(runs, "tce"))
    assert _curves(browser)["TCE"][0][-1] == pytest.approx(last, rel=0.02)


def test_single_runs_and_measures_on_demand(browser: Chrome) -> None:
    lines = "return document.querySelectorAll('#plot .scatterlayer path.js-line').length"
    _choose(browser, "task", REACH)
    _choose(browser, "column", "evaluation_return")
    _click(browser, "#band")
    _wait(lambda: browser.execute_script(lines) == 3)
    _click(browser, "#seeds")
    _wait(lambda: browser.execute_script(lines) == 3 + 12)
    _choose(browser, "task", "all 3 tasks")
    _wait(lambda: "another scale in every task" in _text(browser, "#plot"))


def test_zooming_is_kept_over_a_change_of_colours_and_undone(browser: Chrome) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    _wait(lambda: _curves(browser))
    ranges = "return [plot._fullLayout.xaxis.range, plot._fullLayout.yaxis.range]"
    whole = browser.execute_script(ranges)
    plot = browser.find_element(By.ID, "plot")
    chain = ActionChains(browser).move_to_element_with_offset(plot, -100, -80).click_and_hold()
    chain.move_by_offset(200, 120).release().perform()
    zoomed = _wait(lambda: (now := browser.execute_script(ranges)) != whole and now)
    _click(browser, "#theme")
    _wait(lambda: browser.execute_script("return document.documentElement.dataset.theme") == "dark")
    assert browser.execute_script(ranges) == zoomed
    _click(browser, "#reset")
    _wait(lambda: browser.execute_script(ranges) == whole)


def test_tables_sort_by_mouse_and_by_keyboard(browser: Chrome) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    def seeds() -> list[float]:
        names = browser.execute_script(
            "return [...document.querySelectorAll('#table-runs th')].map(th => th.textContent)"
        )
        cells = (
            "return [...document.querySelectorAll(arguments[0])].map(td => parseFloat(td.textContent.replace(',', '')))"
        )
        return browser.execute_script(cells, f"#table-runs td:nth-child({names.index('seed') + 1})")

    button = browser.find_element(By.XPATH, "//table[@id='table-runs']//button[text()='seed']")
    button.click()
    assert seeds() == sorted(seeds(), reverse=True)
    assert seeds() != sorted(seeds())
    button.send_keys(Keys.ENTER)
    assert seeds() == sorted(seeds())
    assert len(seeds()) == 14


def test_what_was_left_out_and_settings_are_said(browser: Chrome) -> None:
    assert "it has no config.yaml" in _text(browser, "#table-excluded")
    assert "torn" in _text(browser, "#table-excluded")
    assert HOSTILE in _text(browser, "#table-runs")
    assert "packages.torch2.13.0+cpu14" in _text(browser, "#table-origins")


def test_it_follows_the_systems_colours(browser: Chrome) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(ground)
    prefer(browser, "dark")
    _wait(lambda: browser.execute_script(ground) != light)
    ink = browser.execute_script("return getComputedStyle(document.querySelector('#plot .xtitle')).fill")
    assert min(map(int, ink.removeprefix("rgb(").removesuffix(")").split(","))) > 150  # light letters on dark ground


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Chrome, runs: Path, width: int) -> None:
    resize(browser, width, 844)
    _open(browser, runs)
    _wait(lambda: _curves(browser))
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    plot = browser.execute_script("const box = plot.getBoundingClientRect(); return [box.left, box.right, box.height]")
    assert plot[0] >= 0
    assert plot[1] <= width
    assert plot[2] > 250


def test_a_live_page_reloads_and_keeps_the_view(browser: Chrome, runs: Path, tmp_path: Path) -> None:
    page = (runs / "report" / "index.html").read_text()
    assert page.count('"live":0') == 1
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text(page.replace('"live":0', '"live":2'))
    _open(browser, tmp_path)
    _choose(browser, "task", REACH)
    _click(browser, ".method[data-label='PPO']")
    browser.execute_script("window.scrollTo(0, 400); window.before = true;")
    _wait(lambda: browser.execute_script("return window.before === undefined && document.readyState === 'complete'"))
    _wait(lambda: set(_curves(browser)) == {"TOP-ERL", "TCE"})
    assert browser.execute_script("return [document.getElementById('task').value, window.scrollY]") == [REACH, 400]
