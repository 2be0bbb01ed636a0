"""The words of the embedded corpus: modern, and archaic after a `=` where that is another word.

A noun is followed by its plural where that is irregular: `man/men`. A verb is followed by its past and its
participle where these are irregular, `see/saw/seen`, and by an archaic verb after a `=` in the same way. No
verb has a past like its base, for the tense must be told by the modern sentence; and none doubles its last
letter, except where that is written into the past.
"""


def _table(text: str) -> dict[str, str]:
    pairs = (entry.partition("=")[::2] for entry in text.split())
    return {modern: archaic or modern for modern, archaic in pairs}


def _phrases(text: str) -> dict[str, str]:
    """Also none: nothing for nothing."""
    pairs = (entry.strip().partition("=")[::2] for entry in text.split(","))
    return {"": ""} | {modern: archaic or modern for modern, archaic in pairs}


def _nouns(text: str) -> dict[str, tuple[str, str, str, str]]:
    """Of a modern singular: itself, its plural, archaic singular, plural."""
    return {modern.split("/")[0]: (*_number(modern), *_number(old)) for modern, old in _table(text).items()}


def _number(noun: str) -> tuple[str, str]:
    one, _, many = noun.partition("/")
    return one, many or one + "s"


PERSONS = _nouns("""
king queen knight prince soldier=warrior father=sire mother=dame brother=brother/brethren sister uncle
aunt=kinswoman/kinswomen cousin=kinsman/kinsmen enemy/enemies=foe girl=maid boy=lad child/children=babe
doctor=leech/leeches priest=friar thief/thieves=cutpurse guard=sentinel poet=bard stranger=outlander widow
fool=jester
""")

THINGS = _nouns("""
letter=scroll sword=blade ring crown house=hall castle=keep horse=steed ship=barque garden=orchard
story/stories=tale joke=jest promise=oath dream=vision apple island=isle army/armies=host amulet door=portal
gift=boon cup=goblet book=tome answer=reply/replies
""")

NAMES = tuple(
    _table("""
Alaric Beatrix Corvin Damaris Edmund Isolde Osric Perdita Rowena Tybalt Valentin
""")
)

OF_PERSONS = _table("""
brave=valiant old=aged young=youthful honest sad=woeful angry=wroth proud=haughty cruel=fell gentle
poor=hapless clever=cunning foolish=witless noble ugly=ill-favoured sick=ailing eager tired=weary
afraid=afeard
""")

OF_THINGS = _table("""
old=ancient golden black=sable small=little great=mighty empty beautiful=beauteous strange=uncanny broken
bitter cold=chill
""")

OF_WEATHER = _table("late cold=chill dark=murky strange=uncanny warm=balmy")

# Verbs of whom one loves, of what one breaks, of what one gives, of what one does, and of where one goes.
WITH_PERSON = """
love praise help=aid see/saw/seen know/knew/known fear=dread follow find/found/found trust
kill=slay/slew/slain hate=loathe cheat=beguile mock honour greet=hail
leave/left/left=forsake/forsook/forsaken blame=chide/chid/chidden strike/struck/struck=smite/smote/smitten
seek/sought/sought
"""

WITH_THING = """
see/saw/seen find/found/found break/broke/broken=break/brake/broken steal/stole/stolen=filch hold/held/held
seek/sought/sought want=desire keep/kept/kept sell/sold/sold=vend guard=ward hide/hid/hidden=conceal praise
fear=dread choose/chose/chosen wear/wore/worn=wear/ware/worn carry/carried/carried=bear/bare/borne
destroy=raze
"""

GIVING = (
    "give/gave/given show send/sent/sent offer=proffer lend/lent/lent promise=pledge bring/brought/brought"
)

DOING = """
sleep/slept/slept=slumber weep/wept/wept sing/sang/sung fight/fought/fought
speak/spoke/spoken=speak/spake/spoken dream live=dwell/dwelt/dwelt wait=tarry/tarried/tarried work=toil
swear/swore/sworn=swear/sware/sworn think/thought/thought=ponder drink/drank/drunk=quaff dance
"""

GOING = "come/came/come go/went/gone return arrive flee/fled/fled=fly/flew/flown"

MODALS = {  # modern: modern negative, archaic, archaic after thou
    "will": ("won't", "will", "wilt"),
    "can": ("can't", "can", "canst"),
    "should": ("shouldn't", "should", "shouldst"),
    "must": ("mustn't", "must", "must"),
    "could": ("couldn't", "could", "couldst"),
    "would": ("wouldn't", "would", "wouldst"),
    "may": ("may not", "may", "mayst"),
}

WHEN = _phrases("""
tomorrow=on the morrow, yesterday=yestereve, now, soon=anon, today=this day, tonight=this night,
again=once more, later=hereafter, long ago=in days of yore
""")

HOW_OFTEN = _phrases(
    "often=oft, never=ne'er, always=ever, sometimes=at whiles, rarely=seldom, perhaps=perchance"
)

WHERE = _phrases("""
in the forest=in the greenwood, near the river=nigh the stream, over the sea=o'er the main, at the gate,
between the hills=betwixt the hills, under the sky=beneath the welkin, before dawn=ere dawn,
in the evening=at even, in the morning=at morn, without shame=sans shame
""")

CONJUNCTIONS = _phrases(
    "before=ere, because=for that, while=whilst, when, until=till, if=an, although=albeit"
)

ASKING = _phrases("why=wherefore, where, when, how")

CALLS = _phrases("yes=aye, no=nay, oh=O, look=lo, listen=hark, truly=forsooth, alas=alack, well=marry")

TO_ONE = _phrases("""
my friend=good friend, my lord=my liege, madam=fair lady, sir=good sir, dear cousin=sweet coz, my son,
old man=greybeard
""")

TO_MANY = _phrases("""
my friends=good friends, gentlemen=good sirs, ladies=fair ladies, my brothers=my brethren,
everyone=good people, my children=my babes
""")
