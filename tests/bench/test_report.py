"""The report says whether each target is met."""

from bench.fanout import Run, Series
from bench.report import render
from bench.results import HAPI, OURS, Results
from bench.scale import QUICK
from bench.startup import Start


def series(cpu: float) -> Series:
    run = Run(
        messages=100,
        subscribers=50,
        server_cpu=cpu,
        agent_cpu=0.1,
        seconds=1.0,
        p50=1.0,
        p99=2.0,
        missing=0,
        wrong=0,
    )
    return Series([run])


def page(ours: float, theirs: float) -> str:
    found = Results(burst={(OURS, 50): series(ours), (HAPI, 50): series(theirs)})
    return render(found, QUICK, "make bench", 0.01)


def test_five_times_less_is_met() -> None:
    assert "| 1000.00 µs | 5000.00 µs | 5.0x | met |" in page(5.0, 25.0)


def test_less_than_five_times_is_not() -> None:
    assert "| 4.8x | **NOT met** |" in page(5.0, 24.0)


def test_what_was_not_measured_is_not_claimed() -> None:
    found = Results(starts={OURS: Start(ready=0.5, first=0.6, idle=50.0)}, skipped={HAPI: "npm is not here"})
    text = render(found, QUICK, "make bench", 0.01)
    assert "**HAPI was not measured**: npm is not here" in text
    assert "idle memory" not in text


def test_lost_deliveries_are_told() -> None:
    found = Results(burst={(OURS, 1): Series([Run(10, 1, 1.0, 0.0, 1.0, 0.0, 0.0, missing=3, wrong=0)])})
    text = render(found, QUICK, "make bench", 0.01)
    assert "**3 deliveries were missing" in text
