"""Negations: found where they are lost or added, and nowhere else."""

import pytest

from headway.text.negation import find_negation_fault


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("Cannot open the file.", "Die Datei öffnen."),
        ("You can't do that.", "Das kannst du machen."),
        ("He couldn’t come.", "Er konnte kommen."),
        ("I have no money.", "Ich habe Geld."),
        ("He never came back.", "Er kam zurück."),
        ("Nobody knows it.", "Alle wissen es."),
        ("They left without a word.", "Sie gingen mit einem Wort."),
        ("Do not turn off the computer.", "Schalten Sie den Rechner aus."),
        ("None of them is here.", "Sie sind hier."),
        ("We are close to the point of no return.", "Wir stehen kurz vor dem Punkt der Rückkehr."),
    ],
)
def test_lost(source: str, output: str) -> None:
    assert find_negation_fault(source, output, "en", "de") == "lost"
    assert find_negation_fault(output, source, "de", "en") == "added"


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("Kein Mensch war da.", "A man was there."),
        ("Viel wird nicht über sie geschrieben.", "Much is written about her."),
        ("Das geht ohne Bank.", "That works with a bank."),
        ("Er hat es niemandem gesagt.", "He told everyone."),
        ("Weder er noch sie kam.", "He and she came."),
    ],
)
def test_lost_from_german(source: str, output: str) -> None:
    assert find_negation_fault(source, output, "de", "en") == "lost"
    assert find_negation_fault(output, source, "en", "de") == "added"


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("I do not know.", "Ich weiß es nicht."),
        ("It is not possible.", "Es ist unmöglich."),
        ("He was not careful.", "Er war unvorsichtig."),
        ("It is not free.", "Das ist kostenpflichtig und unfrei."),
        ("Not only he came.", "Auch er kam, und andere."),
        ("There is no doubt about it.", "Das ist sicher."),
        ("He does not come until Monday.", "Er kommt am Montag."),
        ("It doesn't matter.", "Das ist egal."),
        ("It's cold, isn't it?", "Es ist kalt, oder?"),
        ("Why don't we go home?", "Gehen wir nach Hause!"),
        ("Amendment No 33", "Änderungsantrag 33"),
        ("See no. 5.", "Siehe Nr. 5."),
        ("Regulation No.", "Verordnung Nr."),
        ('The default is "no".', "Die Vorgabe ist »no«."),
        ("WHEN is 'never' or 'auto'", "WHEN ist »never« oder »auto«"),
        ("The College Without Walls", "Das College Without Walls"),
        ("_Do not split", "_Nicht aufteilen"),
        ("It failed.", "Es ging nicht."),
        ("He refuses to come.", "Er will nicht kommen."),
        ("It has yet to come.", "Es ist noch nicht da."),
        ("Sales in non-EU countries", "Der Verkauf in Nicht-EU-Ländern"),
        ("That is hardly true.", "Das stimmt nicht."),
        ("Take a note of the knot.", "Notiere dir den Knoten."),
    ],
)
def test_neither_lost_nor_added(english: str, german: str) -> None:
    assert find_negation_fault(english, german, "en", "de") == ""
    assert find_negation_fault(german, english, "de", "en") == ""


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("fr", "de"), ("", ""), ("xx", "yy")])
def test_languages_without_a_table_are_not_checked(source: str, target: str) -> None:
    assert find_negation_fault("It is not so.", "Es ist so.", source, target) == ""
    assert find_negation_fault("It is not so.", "Es ist so.", "en-GB", "de_AT") == "lost"
