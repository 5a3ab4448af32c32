"""The words of the generated science: invented names, and what is measured in whom."""

from __future__ import annotations

import itertools
import random

_STARTS = "mero kalu tavi bren dosa fili goro hest ilva jora lume nari orvo pelu quin rasta selo tume vasti zimo"
_MIDDLES = "ba ce di fo gu la mi no pra ri sto tu va xi zo"
_ENDS = "tane dol zine mab rin lex vir nol side pam stat gen"
_HELD_OUT = 240


def _all_names() -> list[str]:
    names = ["".join(parts) for parts in itertools.product(_STARTS.split(), _MIDDLES.split(), _ENDS.split())]
    random.Random(20).shuffle(names)
    return names


_NAMES = _all_names()
TRAINING_NAMES = tuple(_NAMES[_HELD_OUT:])
"""Treatments that base and adapters read about."""
HELD_OUT_NAMES = tuple(_NAMES[:_HELD_OUT])
"""Treatments that occur in held-out samples and nowhere else."""

_PEOPLE_GROUPS = (
    "older adults;school children;nurses;new mothers;office workers;trained runners;former smokers;heart patients;"
    "stroke patients;twins;night workers;rural families"
)
_PEOPLE_OUTCOMES = (
    "blood pressure;fasting glucose;body weight;heart rate;sleep time;walking speed;grip strength;pain;fatigue;anxiety;"
    "cough;fever;appetite;bone density;lung volume;muscle mass;skin redness;joint swelling;iron stores;reaction time;"
    "working memory;reading speed;attention;stress;plaque depth;wound size;tear volume;hearing loss;step count;"
    "screen time;missed doses;hospital days"
)
_ANIMAL_GROUPS = "young mice;adult rats;dairy cows;honey bees;brown trout;hens;lambs;guinea pigs"
_ANIMAL_OUTCOMES = (
    "body weight;heart rate;egg weight;milk yield;larval growth;nest size;water intake;food intake;litter size;gut length;"
    "wound size;liver fat;blood iron;mite counts;time at rest;body heat"
)
_PLANT_GROUPS = (
    "rice plants;tomato plants;barley plants;oak seedlings;bean plants;maize plants;young vines;potato plants"
)
_PLANT_OUTCOMES = (
    "leaf area;root length;seed yield;soil nitrogen;water use;enzyme activity;salt uptake;gene expression;stem height;"
    "leaf rust;fruit size;root rot;flower counts;leaf temperature;sugar content;aphid counts"
)
FIELDS = tuple(
    (tuple(groups.split(";")), tuple(outcomes.split(";")))
    for groups, outcomes in (
        (_PEOPLE_GROUPS, _PEOPLE_OUTCOMES),
        (_ANIMAL_GROUPS, _ANIMAL_OUTCOMES),
        (_PLANT_GROUPS, _PLANT_OUTCOMES),
    )
)
"""Who or what is studied, and what is measured in them. Everything measured can rise, fall or stay."""

_LOOSE = (
    "apple river stone cloud green seven under light paper table north window bridge garden silver music winter "
    "letter orange market yellow simple travel pocket CLAIM RELATION NOTE LINK FACT TIE POINT EDGE ITEM BOND "
    "supports refutes backs denies confirms rejects favours opposes Document Hypothesis Claims Extract claims "
    "evidence c1 c2 c3 n1 n2 f1 f2 p1 e1 k2 s3 [ ] ( ) : raises lowers reduces increases rose fell agree disagree"
)
PLAIN_WORDS = tuple(_LOOSE.split())
"""Loose words of the repeat exercise; every mark of every line format occurs here, so that no token stays unread."""


SHARES = ("a tenth", "a fifth", "a quarter", "a third", "half", "two thirds")
MANNERS = ("slowly", "slightly", "steadily", "sharply", "at once", "within days")
COUNTS = ("twenty", "thirty", "forty", "fifty", "sixty", "ninety", "two hundred")
WEEKS = ("four", "five", "six", "eight", "ten", "twelve")
"""Numbers of an abstract, in words: the only digits in it are those of the documents' own numbers."""


def capital(text: str) -> str:
    """The same text as the start of a sentence.

    >>> capital("fasting glucose")
    'Fasting glucose'
    """
    return text[:1].upper() + text[1:]


def identifiers(draw: random.Random, count: int) -> list[str]:
    """Numbers of three digits for up to three documents; no digit occurs twice, so that one digit says which it is.

    >>> sorted("".join(identifiers(random.Random(0), 3)))
    ['1', '2', '3', '4', '5', '6', '7', '8', '9']
    """
    digits = draw.sample("123456789", 3 * count)
    return ["".join(digits[place : place + 3]) for place in range(0, 3 * count, 3)]
