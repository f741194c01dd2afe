"""Numbers with scales such as `million`, in several languages, are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.judges import answer_is, no_new_numbers, no_new_times, number_near

if TYPE_CHECKING:
    from regauge.digests import JSON


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("3 million users", "3,000,000 users"),
        ("3,000,000", "3 Mio. Nutzer"),
        ("3.000.000.000 Euro", "3 Mrd. Euro"),
        ("2500000", "2,5 Mio."),
        ("1.2 billion", "1,200 million"),
        ("1.2k requests", "1,200 requests"),
        ("5M", "5 minutes"),
        ("30000", "3万人"),
        ("300,000,000", "3億円"),
        ("500 000 тыс.", "5 lakh, 500 000 тыс."),
        ("3 million to 4 million", "3 to 4 million"),
        ("3-4 million", "between 3 million and 4 million"),
        ("a burst of 5 mnemonics", "5 mnemonics"),
        ("$3m", "$3 million"),
        ("€2.5 b", "€2.5 b"),
        ("**1. Revenue** is 5", "5"),
        ("2億5000万円", "250,000,000 yen"),
        ("35000", "3만 5천 명"),
        ("1,234,500,000,000", "1조 2345억 원"),
        ("50,000,000", "5千万円"),
        ("1,200,000,000,000", "1.2조 원"),
        ("12,000", "1만 2000원"),
        ("12,000", "1만 2,000원"),
        ("1.5 cups", "1½ cups"),
        ("½", "0.5"),
        ("1000", "10^3"),
        ("5 \u00d7 10³", "5000"),
        ("1 000 000 EUR", "1000000 EUR"),
        ("1 2000", "rows 1 and 2000"),
        ("USD 5k", "5000 dollars"),
        ("- 1. Revenue is 5", "5"),
        ("> 1. Revenue is 5", "5"),
    ],
)
def test_a_number_with_a_scale_is_the_number_in_digits(output: str, report: str):
    assert no_new_numbers().check_text(output, inputs={"report": report}).outcome == "pass"


@pytest.mark.parametrize(
    ("output", "report", "new"),
    [
        ("3 million pods", "3 pods", "3 million"),
        ("4 pods", "4 million pods", "4"),
        ("3 billion", "3 Mio.", "3 billion"),
        ("3 and 5 million", "3 and 4 million", "5 million"),
        ("3万", "3", "3万"),
        ("5k", "5", "5"),
        ("2億5000万", "2億 and 5000", "2億5000万"),
        ("10^3", "10 and 3", "10^3"),
        ("1½", "1", "1½"),
        ("1 000 000", "1", "1 000 000"),
        ("$5M", "$5", "5"),
        ("12000", "rows 1万 2000", "12000"),
        ("**17** pods", "5", "17"),
    ],
)
def test_another_scale_is_another_number(output: str, report: str, new: str):
    verdict = no_new_numbers().check_text(output, inputs={"report": report})
    assert (verdict.outcome, verdict.details["new"]) == ("fail", [new])


@pytest.mark.parametrize(
    ("output", "to", "unit"),
    [
        ("Es sind 3 Mio.", 3e6, None),
        ("Kosten: 2,5 Mrd. Euro im Jahr", 2.5e9, "€"),
        ("3 million dollars", 3e6, "$"),
        ("$3M", 3e6, "$"),
        ("3 thousand GB", 3, "TB"),
        ("3万", 30_000, None),
        ("1,2 milliards", 1.2e9, None),
        ("5 K", 5, "K"),
        ("5 mnemonics", 5, None),
        ("$3m", 3e6, "$"),
        ("€2.5bn", 2.5e9, "€"),
        ("3m", 3, "m"),
        ("1.2k/s", 1200, None),
        ("3 million/day", 3e6, None),
        ("2億5000万円", 2.5e8, None),
        ("3万5千", 35_000, None),
        ("1万2345", 12_345, None),
        ("1.2兆円", 1.2e12, None),
        ("2.5億3000万", 2.8e8, None),
        ("10^3 ms", 1, "s"),
        ("10⁻³ s", 1, "ms"),
        ("1e3", 1000, None),
        ("USD 5", 5, "$"),
        ("-EUR 5k", -5000, "€"),
        ("CHF 20", 20, "CHF"),
    ],
)
def test_a_scale_multiplies_the_number_before_its_unit(output: str, to: float, unit: str | None):
    assert number_near(to, unit=unit).check_text(output).outcome == "pass"


@pytest.mark.parametrize(
    ("output", "first", "last", "unit"),
    [
        ("3-5 ms", 3, 5, "ms"),
        ("3 to 5 million", 3e6, 5e6, None),
        ("$3-5M", 3e6, 5e6, "$"),
        ("10\u201320 %", 10, 20, "%"),
        ("-3 to 5 °C", -3, 5, "°C"),
        ("500 to 3 million", 500, 3e6, None),
        ("3 KB to 5 MB", 3, 5000, "KB"),
        ("3 ms and 5 pods", 3, 5, None),
    ],
)
def test_the_ends_of_a_range_share_scale_and_unit(
    output: str, first: float, last: float, unit: str | None
):
    for which, to in (("first", first), ("last", last)):
        assert number_near(to, unit=unit, which=which).check_text(output).outcome == "pass"
    assert number_near(last, unit=unit, which="only").check_text(output).code == "several_numbers"


def test_other_scales_are_not_added_up():
    verdict = number_near(40_000, which="last").check_text("3万 4万")
    assert verdict.outcome == "pass"
    assert answer_is("½").check_text("ANSWER: 0.5").outcome == "pass"
    assert answer_is(1000).check_text("ANSWER: 10^3").outcome == "pass"
    assert answer_is("2億5000万").check_text("ANSWER: 250,000,000").outcome == "pass"


def test_an_answer_is_compared_with_its_scale():
    assert answer_is(3_000_000).check_text("ANSWER: 3 million").outcome == "pass"
    assert answer_is("3 million").check_text("ANSWER: 3,000,000").outcome == "pass"
    assert answer_is(3).check_text("ANSWER: 3 million").outcome == "fail"


@pytest.mark.parametrize(
    ("to", "answer", "outcome"),
    [
        (True, "True.", "pass"),
        (True, "yes", "pass"),
        (True, "no", "fail"),
        (True, "1", "fail"),
        (False, "false", "pass"),
        (False, "No", "pass"),
        (False, "0", "fail"),
        ([3, False], "no", "pass"),
        (1, "true", "fail"),
    ],
)
def test_a_boolean_answer_is_also_yes_or_no(to: JSON, answer: str, outcome: str):
    assert answer_is(to).check_text(f"ANSWER: {answer}").outcome == outcome


def test_a_wrong_boolean_answer_is_compared_with_json():
    assert "the answer is 'no', not 'true'" in str(answer_is(to=True).check_text("ANSWER: no"))


@pytest.mark.parametrize(
    ("to", "answer", "outcome"),
    [
        ("5 GB", "5 GB", "pass"),
        ("5 GB", "5000 MB", "pass"),
        ("5 GB", "5", "pass"),
        ("5 GB", "5 GB of disk", "pass"),
        ("5 GB", "5 MB", "fail"),
        ("50%", "50 kg", "fail"),
        ("$5", "€5", "fail"),
        ("3 million €", "3 million $", "fail"),
        ("5 h", "300 min", "pass"),
        ("0 °C", "0 °F", "fail"),
        ("007", "7", "fail"),
        ("007", "007", "pass"),
        ("5", "$5$", "pass"),
        (3e6, "$3m", "pass"),
    ],
)
def test_an_answer_with_a_unit_is_a_quantity(to: str | float, answer: str, outcome: str):
    assert answer_is(to).check_text(f"ANSWER: {answer}").outcome == outcome


@pytest.mark.parametrize(
    ("output", "report", "outcome"),
    [
        ("3.5.2024", "2024-05-03", "pass"),
        ("on 3. 5. 2024", "5 May 2024", "fail"),
        ("15.03.2024", "2024-05-03", "fail"),
        ("3/5/2024", "2024-05-03", "pass"),
        ("5/3/2024", "2024-05-03", "pass"),
        ("2024-05-03", "5/3/2024", "pass"),
        ("5/4/2024", "2024-05-03", "fail"),
        ("25/12/2024", "12-25-2024", "pass"),
        ("25/12/2024", "2024-12-24", "fail"),
        ("9 pm", "21:00", "pass"),
        ("9 p.m.", "9 am", "fail"),
        ("14.05 Uhr", "14:05", "pass"),
        ("14 Uhr", "14:05", "fail"),
        ("14時05分", "2:05 pm", "pass"),
        ("下午3点20分", "15:20", "pass"),
        ("오후 3시 20분", "3:20", "fail"),
        ("24時間, 20分, 3点, 1.2.3.4, v1.12.2024, 99.12.2024", "", "pass"),
    ],
)
def test_dates_and_times_in_other_forms_are_read(output: str, report: str, outcome: str):
    assert no_new_times().check_text(output, inputs={"report": report}).outcome == outcome
