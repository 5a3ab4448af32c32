"""Personal data in texts, with characters of any width."""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_phones import make_phones
from run_sizes import choose_examples

from pytest_crucible.detectors import addresses
from pytest_crucible.detectors.pii import PII_TYPES, find_pii, passes_luhn, passes_mod97
from pytest_crucible.detectors.places import drop_overlapping, make_spans
from pytest_crucible.records.outcomes import Span

DATA = Path(os.environ.get("CRUCIBLE_DATA", "/nowhere")) / "guard" / "presidio_pii_synth.jsonl.gz"

FOUND = [
    ("Grüße an jürgen@example.com.", "EMAIL_ADDRESS", "jürgen@example.com"),
    ("(write to first.last+tag@mail.example.co.uk)", "EMAIL_ADDRESS", "first.last+tag@mail.example.co.uk"),
    ("see https://en.wikipedia.org/wiki/Cat_(animal).", "URL", "https://en.wikipedia.org/wiki/Cat_(animal)"),
    ("(see https://example.org/a?b=1)", "URL", "https://example.org/a?b=1"),
    ("at www.example.org, or so", "URL", "www.example.org"),
    ("card 4111-1111-1111-1111 expires", "CREDIT_CARD", "4111-1111-1111-1111"),
    ("amex 3782 822463 10005", "CREDIT_CARD", "3782 822463 10005"),
    ("DE89 3704 0044 0532 0130 00", "IBAN_CODE", "DE89 3704 0044 0532 0130 00"),
    ("iban gb82west12345698765432 today", "IBAN_CODE", "gb82west12345698765432"),
    ("NO93 8601 1117 947 and more text", "IBAN_CODE", "NO93 8601 1117 947"),
    ("host 192.0.2.17:8080", "IP_ADDRESS", "192.0.2.17"),
    ("-10.20.30.40 and 2.10.20.30.40", "IP_ADDRESS", "10.20.30.40"),
    ("GB83 WEST 1234 5698 7654 32 GB82 WEST 1234 5698 7654 32", "IBAN_CODE", "GB82 WEST 1234 5698 7654 32"),
    ("MC 2720990000000007, no 2721000000000004", "CREDIT_CARD", "2720990000000007"),
    ("0604123456789015 of Maestro", "CREDIT_CARD", "0604123456789015"),
    ("ping 8.8.8.8", "IP_ADDRESS", "8.8.8.8"),
    ("Servers:\n8.8.8.8", "IP_ADDRESS", "8.8.8.8"),
    ("http://[2001:db8::8a2e:370:7334]/", "IP_ADDRESS", "2001:db8::8a2e:370:7334"),
    ("6e40:4041:c617:e898:c11:40d2:c669:2eb4", "IP_ADDRESS", "6e40:4041:c617:e898:c11:40d2:c669:2eb4"),
    ("from ::ffff:192.0.2.17.", "IP_ADDRESS", "::ffff:192.0.2.17"),
    ("64:ff9b:1:2:3:4:192.0.2.17", "IP_ADDRESS", "64:ff9b:1:2:3:4:192.0.2.17"),
    ("fedc:fedc:fedc:fedc:fedc:fedd:1::", "IP_ADDRESS", "fedc:fedc:fedc:fedc:fedc:fedd:1::"),
    ("1edc:fedc:fedc:fedc:fedc:fedd:f::", "IP_ADDRESS", "1edc:fedc:fedc:fedc:fedc:fedd:f::"),
    ("İrem, Telefon 030 901820", "PHONE_NUMBER", "030 901820"),
    ("mobİl 030 901820", "PHONE_NUMBER", "030 901820"),
    ("SSN 078-05-1120", "US_SSN", "078-05-1120"),
    ("+49 (0)30 901820", "PHONE_NUMBER", "+49 (0)30 901820"),
    ("(415) 555-0123", "PHONE_NUMBER", "(415) 555-0123"),
    ("001-415-555-0123x17", "PHONE_NUMBER", "001-415-555-0123x17"),
    ("Phone:\n030 901820", "PHONE_NUMBER", "030 901820"),
    ("030 901820 office", "PHONE_NUMBER", "030 901820"),
    ("Bitte Tel. 030 901820 anrufen", "PHONE_NUMBER", "030 901820"),
    ("Bitte 030 901820 anrufen", "PHONE_NUMBER", "030 901820"),
    ("Anna ist unter 030 901820 zu erreichen", "PHONE_NUMBER", "030 901820"),
    ("you can reach me at 555 01234", "PHONE_NUMBER", "555 01234"),
    ("4111 1111 1111 1112 4111 1111 1111 1111", "CREDIT_CARD", "4111 1111 1111 1111"),
    ("(call 415-555-0123)", "PHONE_NUMBER", "415-555-0123"),
    ("GB82 WEST 1234 5698 7654 32é, GB82 WEST 1234 5698 7654 32", "IBAN_CODE", "GB82 WEST 1234 5698 7654 32"),
]  # fmt: skip
NOTHING = [
    "he sold 1200-1000=200 and 10800-2500=8300 on the phone",
    "Order 1234567, invoice no. 7654321, call about ticket 5551234567",
    "at 1700000000 and 2012-10-01 00:46:43, called on 12.10.2012",
    "pi is 3.14159265 and he called it 1234567.89",
    "numbers[1::2] + [::-1], std::map<a::b>, time 12:30:45",
    "version 1.2.3.4, section 2.3.4.1, v10.20.30.40",
    "the host\nof section 2.3.4.1, and a server farther away than a section: 2.3.4.1",
    "4111 1111 1111 1112 and 1234567890123456",
    "000-12-3456, 666-12-3456, 900-12-3456, 123-00-4567",
    "GB83 WEST 1234 5698 7654 32, ZZ82 WEST 1234 5698 7654 32",
    # A text that ends within an account, whose check digits are those of its part.
    "UA39443I73BA36I96FAFAEGDA8DD",
    "a@b, @handle, user@localhost, 5 @ 3.50",
    "1,000,000 and $12345678 and 1234567 %",
    f"::1:{'2:' * 40}, 1:2:3:4:5:6:7:1.2.3.4, call about lİcense 5551234567",
]


@pytest.mark.parametrize(("text", "kind", "value"), FOUND)
def test_personal_data_is_found_whole(text, kind, value):
    assert [text[span.start : span.end] for span in find_pii(text) if span.type == kind] == [value]


@pytest.mark.parametrize("text", NOTHING)
def test_harmless_look_alikes_of_personal_data_are_not_found(text):
    assert find_pii(text) == ()


def test_only_the_types_that_are_named_are_looked_for():
    text = "a@example.com from 192.0.2.17"

    assert {span.type for span in find_pii(text, ["IP_ADDRESS"])} == {"IP_ADDRESS"}
    assert {span.type for span in find_pii(text)} == {"IP_ADDRESS", "EMAIL_ADDRESS"}


def test_plans_of_countries_find_numbers_without_a_word_beside_them():
    pytest.importorskip("phonenumbers")
    text = "Anna, 030 901820, and order 0309018201"

    assert find_pii(text, phones="context") == ()
    assert [text[span.start : span.end] for span in find_pii(text, phones="phonenumbers")] == ["030 901820"]
    assert find_pii(text) == find_pii(text, phones="phonenumbers")


def test_without_phonenumbers_words_beside_a_number_are_needed(monkeypatch):
    monkeypatch.setattr("pytest_crucible.detectors.pii.has_phonenumbers", lambda: False)

    assert find_pii("Anna, 030 901820") == ()
    assert [span.type for span in find_pii("Anna, Tel. 030 901820")] == ["PHONE_NUMBER"]


def test_most_numbers_of_many_plans_are_found_without_a_word_beside_them():
    pytest.importorskip("phonenumbers")
    result = [
        any(span.start == text.index(number) for span in find_pii(text, ["PHONE_NUMBER"]))
        for _, text, number in make_phones(seed=3)
    ]

    assert len(result) > 500
    assert sum(result) / len(result) >= 0.95


@pytest.mark.parametrize(
    "text",
    [
        "The office is at 17151 2450 Crown St", "lives at 62314 Mellemvej, 28919 136 Filadelfeos", '"evidence": {"16966326": []}',
        "SSN: 460-89-9847", "from 86.121.97.248", "order 0309018201",
    ],
)  # fmt: skip
def test_other_numbers_are_no_telephones_in_any_plan(text):
    pytest.importorskip("phonenumbers")

    assert find_pii(text, ["PHONE_NUMBER"], phones="phonenumbers") == ()


WIDTHS = [
    ("4111\u00a01111\u00a01111\u00a01111", "CREDIT_CARD"), ("4111.1111.1111.1111", "CREDIT_CARD"),
    ("4111\u20111111\u20111111\u20111111", "CREDIT_CARD"), ("4111\u202f1111\u202f1111\u202f1111", "CREDIT_CARD"),
    ("\uff14" + "\uff11" * 15, "CREDIT_CARD"), ("\u0664" + "\u0661" * 15, "CREDIT_CARD"),
    ("4111 \u200b1111 1111 1111", "CREDIT_CARD"), ("3782.822463.10005", "CREDIT_CARD"),
    ("anna\uff20example.com", "EMAIL_ADDRESS"), ("\uff41nna\uff20example\uff0ecom", "EMAIL_ADDRESS"),
    ("anna\u200b@example.com", "EMAIL_ADDRESS"), ("078\u201105\u20111120", "US_SSN"),
    ("DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000", "IBAN_CODE"), ("415\u2011555\u20110123", "PHONE_NUMBER"),
    ("192\uff0e0\uff0e2\uff0e17", "IP_ADDRESS"), ("\uff0b49\u00a030\u00a0901820", "PHONE_NUMBER"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), WIDTHS)
def test_personal_data_of_any_width_is_found_at_its_place(value, kind):
    text = f"\u00dc ({value}), und mehr"

    assert [text[span.start : span.end] for span in find_pii(text) if span.type == kind] == [value]


def test_the_end_of_a_sentence_in_another_script_is_no_part_of_an_address():
    text = "\u5199\u4fe1\u7ed9 anna@example.com\u3002\u8c22\u8c22"

    assert [text[span.start : span.end] for span in find_pii(text)] == ["anna@example.com"]


def test_only_the_first_numbers_of_a_text_are_looked_up_in_plans(monkeypatch):
    pytest.importorskip("phonenumbers")
    monkeypatch.setattr("pytest_crucible.detectors.phones._MOST_NUMBERS", 2)
    text = "030 901820, 030 901820, 030 901821, 030 901822, and then Tel. 030 901823"

    result = [text[span.start : span.end] for span in find_pii(text, phones="phonenumbers")]

    assert result == ["030 901820", "030 901820", "030 901821", "030 901823"]


def test_digits_of_an_account_are_no_card_and_no_phone():
    # The last sixteen digits have the form of a card.
    text = "call about NL91ABNA0417164300 or card GB29NWBK60161331926819"

    assert {span.type for span in find_pii(text)} == {"IBAN_CODE"}


@given(digits=st.from_regex(r"[0-9]{11,18}", fullmatch=True))
def test_one_of_ten_check_digits_passes(digits):
    assert sum(passes_luhn(digits + str(k)) for k in range(10)) == 1
    by_hand = [sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(digits[::-1])]
    assert passes_luhn(digits) == (sum(by_hand) % 10 == 0)


@given(account=st.from_regex(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", fullmatch=True), place=st.integers(0, 14))
def test_another_character_breaks_an_account(account, place):
    checked = next(
        f"{account[:2]}{k:02}{account[4:]}" for k in range(2, 99) if passes_mod97(f"{account[:2]}{k:02}{account[4:]}")
    )
    other = "7" if checked[place] != "7" else "8"

    assert not passes_mod97(checked[:place] + other + checked[place + 1 :]) or checked[place].isalpha()


@settings(max_examples=choose_examples(300))
@given(st.text(alphabet=st.sampled_from("0123456789 .:-+/()@aGBxü\n,$") | st.characters(), max_size=80))
def test_spans_lie_in_the_text_in_order(text):
    spans = find_pii(text)

    assert all(0 <= span.start < span.end <= len(text) and span.type in PII_TYPES for span in spans)
    assert list(spans) == sorted(spans, key=lambda span: span.start)
    for span in spans:
        if span.type == "IP_ADDRESS":
            ipaddress.ip_address(text[span.start : span.end])


@settings(max_examples=choose_examples(200))
@given(st.lists(st.sampled_from(["", "0", "1f", "abcd", "12345", "::", ":", "1.2.3.4"]), max_size=16).map(":".join))
def test_ipv6_addresses_are_those_that_the_standard_library_reads(text):
    # Others look like code: they have no digit, or too few groups.
    if any(map(str.isdigit, text)) and addresses.LIKE_SIX.search(text):
        assert addresses.is_six(text) == is_address(text)


def is_address(text):
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


@pytest.mark.skipif(not DATA.is_file(), reason="CRUCIBLE_DATA has no guard/presidio_pii_synth.jsonl.gz")
def test_presidios_own_texts():
    annotated, right, predicted, wrong = Counter(), Counter(), Counter(), Counter()
    for line in gzip.decompress(DATA.read_bytes()).splitlines():
        row = json.loads(line)
        theirs = [(span["type"].replace("DOMAIN_NAME", "URL"), span["start"], span["end"]) for span in row["spans"]]
        ours = [(span.type, span.start, span.end) for span in find_pii(row["text"])]
        for span in theirs:
            annotated[span[0]] += 1
            right[span[0]] += any(overlap(span, other) >= 0.5 for other in ours)
        for span in ours:
            predicted[span[0]] += 1
            wrong[span[0]] += not any(overlap(span, other) >= 0.5 for other in theirs)

    assert annotated["CREDIT_CARD"] == 136
    assert right["CREDIT_CARD"] >= 134
    for kind in ("EMAIL_ADDRESS", "IBAN_CODE", "IP_ADDRESS", "US_SSN"):
        assert right[kind] == annotated[kind]
    assert 1 - wrong.total() / predicted.total() >= 0.98
    assert 2 * right["PHONE_NUMBER"] / (annotated["PHONE_NUMBER"] + predicted["PHONE_NUMBER"]) >= 0.80


def overlap(span, other):
    shared = min(span[2], other[2]) - max(span[1], other[1])
    return shared / (max(span[2], other[2]) - min(span[1], other[1])) if span[0] == other[0] else 0


PLACES = st.lists(
    st.builds(lambda start, size: (start, start + size), st.integers(0, 30), st.integers(1, 9)), max_size=6
)


@given(places=PLACES, first=PLACES, other=PLACES)
def test_overlapping_spans_are_dropped(places, first, other):
    used = [*first, *other]
    apart = [place for place in places if all(place[1] <= start or end <= place[0] for start, end in used)]

    assert drop_overlapping(places, first, other) == apart


@given(st.dictionaries(st.sampled_from("ABC"), PLACES))
def test_spans_are_in_order_of_place_and_type(findings):
    spans = make_spans(findings)

    assert list(spans) == sorted(
        (Span(kind, start, end) for kind, places in findings.items() for start, end in places),
        key=lambda span: (span.start, span.end, span.type),
    )
