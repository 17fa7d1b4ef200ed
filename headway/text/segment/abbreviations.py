"""Abbreviations and other words that decide whether a full stop ends a sentence, by language.

Written without their last stop and without spaces. A lowercase word stands for itself and for its capitalised form; a
capitalised word only for itself, so that "Mag." is a title and "mag." is the end of a sentence.
"""

import functools

# Titles come before a name in texts of any language.
TITLES = """mr mrs ms messrs mme hr hrn frl dr prof Fr Rev Hon St Mt Ft Gen Col Lt Sgt Capt Cmdr Adm Maj Pvt Gov Sen Rep
    Pres Dipl Ing Mag"""

# A sentence never ends with these: something always follows.
NEVER_FINAL = {
    "en": f"{TITLES} e.g i.e cf viz vs approx ca resp",
    "de": f"""{TITLES} med jur phil rer nat geb gest verh Vors stellv
        z.b d.h bzw ca evtl ggf sog insb inkl exkl zzgl abzgl vgl bspw i.d.r i.a u.u o.g s.o s.u v.a z.t z.zt m.e
        gem lt Tel hrsg""",
}

# A sentence may end with these, and does if the next word is one that often begins sentences.
RARELY_FINAL = {
    "en": """etc al Inc Ltd Co Corp Bros Jr Sr u.s u.k u.n e.u a.m p.m b.c a.d ph.d m.d b.a m.a Dept Univ Assn
        Ave Blvd Rd Jan Feb Apr Aug Sept Oct Nov Dec""",
    "de": """usw etc u.a u.v.m u.s.w usf u.ä o.ä u.dgl dgl Chr Jh Jhd Jhdt mio mrd tsd Str Std min sek
        Jan Feb Apr Aug Sept Okt Nov Dez""",
}

# An abbreviation before a number, an ordinary word elsewhere: "No. 5", but "No. I won't."
BEFORE_NUMBER = {
    "en": "no nos vol p pp ch sec par para art fig figs eq est min max",
    "de": "nr s abs abb art aufl bd bl fig jg kap max min mind pos tab ziff",
}

# In the middle of a sentence these are capitalised only in names.
SENTENCE_STARTERS = {
    "en": """The A An This That These Those There Then Here He She It We They You I His Her Its Our Their My Your
        But And Or So If When While After Before Because Although However Meanwhile In On At For From With By As To
        Not No Yes What Who Where Why How Do Does Did Is Are Was Were Can Could Will Would Should Let Please Now
        Later Today Some Many Most All Each Every One""",
    "de": """Der Die Das Den Dem Des Ein Eine Einen Einem Einer Er Sie Es Wir Ihr Ich Du Man Dies Diese Dieser
        Dieses Diesen Jeder Jede Jedes Alle Viele Einige Mein Meine Sein Seine Ihre Unser Unsere Und Aber Oder Doch
        Denn Weil Wenn Als Ob Dass Da Dann Danach Dort Hier Jetzt Nun Heute Gestern Später Zuerst Auch Nur Noch
        Schon So In Im An Am Auf Aus Bei Beim Mit Nach Von Vom Vor Zu Zum Zur Für Ohne Durch Gegen Um Unter Über
        Zwischen Während Trotz Wer Was Wo Wie Warum Wann Welche Ist Sind War Waren Hat Haben Kann Können Nicht Kein
        Keine Ja Nein Bitte""",
}


@functools.cache
def table_words(name: str, language: str) -> frozenset[str]:
    """The words of a table for a language; those of all languages if it has none of its own."""
    table = {"never": NEVER_FINAL, "seldom": RARELY_FINAL, "number": BEFORE_NUMBER, "start": SENTENCE_STARTERS}[name]
    return frozenset(table.get(language, " ".join(table.values())).split())


def is_in_table(word: str, name: str, language: str) -> bool:
    words = table_words(name, language)
    return word in words or word.casefold() in words or (word.isupper() and word.capitalize() in words)
