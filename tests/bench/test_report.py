"""The report says whether each target is met."""

from bench.agents.overhead import Figures, Overhead
from bench.fanout import Run, Series
from bench.history import Timing
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


DIRECT = Figures(first_text=500.0, first_message=3.0, warm_text=40.0, words=Timing(0.5, 2.0), pieces=1.0)


def agent_page(ours: Figures, hapi: Figures | None, failure: str = "") -> str:
    one = Overhead("2.1.326", ours, DIRECT, DIRECT, hapi, failure)
    return render(Results(agents={"claude": one}), QUICK, "make bench", 0.01)


def test_a_real_agent_is_shown_beside_hapi_and_the_cli() -> None:
    ours = Figures(580.0, 13.0, 50.0, Timing(0.9, 3.0), 1.0, session_mb=0.1)
    hapi = Figures(first_text=3200.0, warm_text=60.0, pieces=0.02, session_mb=60.0)
    text = agent_page(ours, hapi)
    assert "| start with a prompt, to the first text | 580 ms | 3200 ms | 500 ms | 500 ms |" in text
    assert "| age of a streamed word, p99 | 3.00 ms | not streamed | 2.00 ms | 2.00 ms |" in text
    assert "| a session besides its agent | 0.10 MB | 60.00 MB | - | - |" in text
    assert "to the first text | 80.0 ms | < 100.0 ms | 1.2x | met |" in text
    assert "over direct) | 10.0 ms | < 20.0 ms | 2.0x | met |" in text
    assert "a streamed word (p99) | 1.00 ms | < 2.00 ms | 2.0x | met |" in text


def test_a_target_that_a_real_agent_misses_is_told() -> None:
    text = agent_page(Figures(601.0), None)
    assert "to the first text | 101.0 ms | < 100.0 ms | 1.0x | **NOT met** |" in text


def test_why_hapi_did_not_run_is_told() -> None:
    text = agent_page(Figures(580.0), None, "HAPI takes no message")
    assert "**HAPI: not run**: HAPI takes no message" in text
    assert "| Farsteer | directly |" in text
