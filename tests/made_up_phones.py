"""Made-up telephone numbers that are valid in the plans of many countries, in texts that do not say what they are."""

from __future__ import annotations

import random
from collections.abc import Iterator

PLANS = (
    "US", "GB", "DE", "FR", "AT", "CH", "ES", "IT", "NL", "AU", "IN", "BR", "SE", "DK", "PL", "PT", "JP", "KR", "ZA", "NZ",
)  # fmt: skip
_TEXTS = (
    "I will be there, {} as always.",
    "Anna, {}",
    "{}",
    "Please note: {} for Mr Miller",
    "Anna Schmidt\n{}\nBerlin",
)
_OF_A_PLAN = 30


def make_phones(seed: int, plans: tuple[str, ...] = PLANS) -> Iterator[tuple[str, str, str]]:
    """Yield the plan, a text, and the number in it: as the country writes it, with the country's code, and without signs."""
    import phonenumbers

    draw = random.Random(seed)
    formats = (
        phonenumbers.PhoneNumberFormat.NATIONAL,
        phonenumbers.PhoneNumberFormat.INTERNATIONAL,
        phonenumbers.PhoneNumberFormat.E164,
    )
    for plan in plans:
        for count in range(_OF_A_PLAN):
            number = phonenumbers.format_number(_draw_number(plan, draw), formats[count % len(formats)])
            yield plan, _TEXTS[count % len(_TEXTS)].format(number), number


def _draw_number(plan: str, draw: random.Random) -> object:
    import phonenumbers

    while True:
        kind = draw.choice((phonenumbers.PhoneNumberType.FIXED_LINE, phonenumbers.PhoneNumberType.MOBILE))
        number = phonenumbers.example_number_for_type(plan, kind)
        output = str(number.national_number)[: -draw.randint(4, 6)]
        rest = len(str(number.national_number)) - len(output)
        number.national_number = int(output + "".join(draw.choices("0123456789", k=rest)))
        if phonenumbers.is_valid_number(number):
            return number
