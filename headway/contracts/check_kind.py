"""All checks that a slot has, over one kind: `headway check-kind my_package.module:MyMixer`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from headway.config.own_kinds import SLOT_MEMBERS, find_kind, guess_slot, import_own, installed_kinds, is_target
from headway.config.schema import from_dict, make_part
from headway.contracts import costs, learning, masks, padding, promises, states
from headway.contracts.cases import Case, cases_of
from headway.contracts.promises import Placement, for_side, placements
from headway.contracts.results import CheckResult, NotApplicable
from headway.errors import ConfigError, HeadwayError
from headway.nn.masks.masks import make_mask
from headway.nn.transformer import Transformer

POSITIONS = ("sinusoidal", "none", "rope", "alibi", "t5(8, max_distance=6)")
CAUSAL_MASKS = ("causal", "causal & local(3)", "causal & strided(3)", "causal & bigbird(2, random=1, max_positions=32)")
PLAIN = "attention(4)"
WIDTH = 32  # of the models that learn
SEED = 1


class Subject(NamedTuple):
    """A kind as it is checked."""

    slot: str
    form: str  # as a config writes it, with its settings

    def cases(self) -> list[Case]:
        """Decoders with it. NotApplicable, with the reason, if it cannot stand in one."""
        if self.slot == "mixer":
            found = cases_of(self.form, list(POSITIONS), list(CAUSAL_MASKS))
            if not found:
                raise NotApplicable("it takes no causal mask, so it stands in encoders alone")
            return found
        value = for_side("decoder", self.form) if self.slot == "mask" else self.form
        case = Case(PLAIN)._replace(**{self.slot: value})
        try:
            case.config().resolved()
        except ConfigError as error:
            raise NotApplicable(f"a decoder refuses it: {error.message}") from None
        return [case]

    def placements(self) -> list[Placement]:
        """Models of one layer with it, in an encoder and in a decoder, where it is accepted."""
        if self.slot == "mixer":
            found = placements((self.form,), positions=POSITIONS)[:: len(POSITIONS)] or placements((self.form,))
            if not found:
                raise NotApplicable("neither an encoder nor a decoder takes it with any mask and position")
            return found
        mask = self.form if self.slot == "mask" else "full"
        position = self.form if self.slot == "position" else "none"
        sides = [Placement((PLAIN,), side, for_side(side, mask), position) for side in ("encoder", "decoder")]
        accepted = [placement for placement in sides if placement.accepted]
        if not accepted:
            raise NotApplicable("neither an encoder nor a decoder takes it")
        return accepted

    def configs(self) -> list[Transformer.Config]:
        """Small models with it."""
        if self.slot in ("mixer", "position", "mask"):
            return [placement.config() for placement in self.placements()]
        if self.slot == "head":
            return [Case(PLAIN).config(head=self.form)]
        return [case.config() for case in self.cases()]

    def learners(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Models that could learn with it: a language model, or a translator whose encoder has it; and their task."""
        side = {"layers": 2, "mixer": PLAIN, "position": "sinusoidal", "feedforward": "relu(48)", "residual": "pre"}
        table = {"d_model": WIDTH, "dropout": 0.0, "embedding": {"tied": "none"}}
        whole = {self.slot: self.form} if self.slot in ("linear", "norm", "head") else {}
        positions = POSITIONS if self.slot == "mixer" else (side["position"],)
        for name, task in (("decoder", "text"), ("encoder", "translation")):
            for mask in ("causal", *CAUSAL_MASKS[1:]) if name == "decoder" else ("full", "local(8)"):
                for position in positions:
                    own = {**side, "mask": mask, "position": position}
                    if self.slot in own:
                        own[self.slot] = for_side(name, self.form) if self.slot == "mask" else self.form
                    other: dict[str, Any] = {"layers": 0} if task == "text" else {**side, "mask": "causal"}
                    sides = {name: own, "encoder" if name == "decoder" else "decoder": other}
                    yield {**table, **sides, **whole}, task


Check = Callable[[Subject], None]
WITH_FLOPS = ("mixer", "feedforward", "position", "residual", "norm", "linear", "head")
DOUBLE = (torch.float64, 1e-12)  # the precision, and how near numbers are in it
ALL = ("mixer", "feedforward", "position", "mask", "residual", "norm", "linear")


class Contract(NamedTuple):
    name: str
    says: str
    slots: Sequence[str]
    check: Check


def over_cases(check: Callable[..., None], *arguments: Any) -> Check:
    """A check of a Case, over all cases; an error names the one."""

    def run(subject: Subject) -> None:
        for case in subject.cases():
            with _naming(f"with position {case.position} and mask {case.mask}"):
                torch.manual_seed(SEED)
                check(case, *arguments)

    return run


def over_placements(check: Callable[..., None], *arguments: Any) -> Check:
    def run(subject: Subject) -> None:
        for placement in subject.placements():
            with _naming(f"in the {placement.side}, with mask {placement.mask} and position {placement.position}"):
                torch.manual_seed(SEED)
                check(placement, *arguments)

    return run


class _naming:
    """Adds where it was to an error of a contract."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, AssertionError):
            error.args = (f"{error} ({self.where})",)


def check_every_mask(subject: Subject) -> None:
    tried = placements((subject.form,), masks=promises.MASKS) if subject.slot == "mixer" else subject.placements()
    for placement in tried:
        with _naming(f"in the {placement.side}, with position {placement.position}"):
            torch.manual_seed(SEED)
            promises.check_mask(placement)


def check_every_position(subject: Subject) -> None:
    names = [name for name in POSITIONS if name != "none"]
    tried = placements((subject.form,), positions=names) if subject.slot == "mixer" else subject.placements()
    if not tried:
        raise NotApplicable("it takes no position")
    for placement in tried:
        torch.manual_seed(SEED)
        promises.check_position(placement)


def check_caches(subject: Subject) -> None:
    tried = placements((subject.form,), masks=["causal", "local(3)"]) or placements((subject.form,))
    decoders = [placement for placement in tried if placement.side == "decoder"]
    if not decoders:
        raise NotApplicable("it stands in encoders alone")
    for placement in decoders:
        torch.manual_seed(SEED)
        promises.check_cache(placement)


def over_sublayer(check: Callable[..., None], *names: str) -> Check:
    """A check of the weights of a mixer or a feed-forward; names: what a layer calls the one and the other."""

    def run(subject: Subject) -> None:
        torch.manual_seed(SEED)
        if subject.slot == "mixer":
            check(subject.placements()[-1], *names[:1])
        else:
            check(Placement((PLAIN,), "decoder", "causal", "none"), *names[1:], feedforward=subject.form)

    return run


def over_configs(check: Callable[[Transformer.Config], None]) -> Check:
    def run(subject: Subject) -> None:
        for config in subject.configs():
            torch.manual_seed(SEED)
            check(config)

    return run


def check_mask_rule(subject: Subject) -> None:
    masks.check_mask_fields(make_mask(subject.form))
    masks.check_rule_by_pairs(make_mask(subject.form))


def check_that_it_learns(subject: Subject) -> None:
    refusals = []
    for table, name in subject.learners():
        task = learning.running_text() if name == "text" else learning.toy_translation()
        try:
            config = from_dict(Transformer.Config, {**table, "vocabulary": task.tokenizer.size})
            config.resolved()
        except ConfigError as error:
            refusals.append(error.message)
            continue
        torch.manual_seed(SEED)
        model = Transformer(config)
        learning.check_learning(model, task)
        learning.check_context(model)
        return
    raise NotApplicable(f"no model that could learn takes it: {refusals[0]}")


CONTRACTS = (
    Contract(
        "parameters",
        "the config says how many there are",
        (*ALL, "head"),
        over_configs(costs.check_parameters),
    ),
    Contract(
        "flops",
        "the config says how many a forward pass takes",
        WITH_FLOPS,
        over_configs(costs.check_flops),
    ),
    Contract("rule", "the fields of a mask say what its rule does", ("mask",), check_mask_rule),
    Contract("chunks", "decoding in chunks is one whole pass", ALL, over_cases(states.check_chunks)),
    Contract("future", "later tokens change nothing", ALL, over_cases(states.check_future)),
    Contract("select", "beam search can reorder the state", ALL, over_cases(states.check_select)),
    Contract("select-first", "and an empty one", ALL, over_cases(states.check_select_first)),
    Contract("truncate", "after truncate, nothing has followed", ALL, over_cases(states.check_truncate, False)),
    Contract("truncate-rows", "each row to its own length", ALL, over_cases(states.check_truncate, True)),
    Contract("truncate-again", "any number of times", ALL, over_cases(states.check_repeated_truncate)),
    Contract("forgotten", "what is forgotten is refused", ALL, over_cases(states.check_refused_truncate)),
    Contract("snapshot", "restore takes a state back", ALL, over_cases(states.check_snapshot)),
    Contract("stored", "a state can be written and read", ALL, over_cases(states.check_stored_state, True, False)),
    Contract("state-size", "a state is as large as the config says", ALL, over_cases(states.check_state_size)),
    Contract("trainable", "a trainable state gives the same", ALL, over_cases(states.check_trainable_state)),
    Contract("gradients", "through a state, those of one whole pass", ALL, over_cases(states.check_gradients)),
    Contract("gradients-rows", "with rows of different lengths", ALL, over_cases(states.check_ragged_gradients)),
    Contract("frozen", "with all but one weight frozen", ALL, over_cases(states.check_frozen_weights)),
    Contract("detach", "stops gradients and nothing else", ALL, over_cases(states.check_detach)),
    Contract("no-grad", "a state passes from training to evaluation", ALL, over_cases(states.check_no_grad_between)),
    Contract(
        "padding", "what stands in it changes nothing, to the bit", ALL, over_cases(padding.check_padding_content)
    ),
    Contract(
        "padding-length",
        "how much there is changes nothing",
        ALL,
        over_cases(padding.check_padding_amount, *DOUBLE),
    ),
    Contract("neighbours", "other rows change nothing", ALL, over_cases(padding.check_neighbours, *DOUBLE)),
    Contract(
        "padded-state",
        "padding never enters a state",
        ALL,
        over_cases(padding.check_padded_state, *DOUBLE),
    ),
    Contract("ragged-rows", "are reordered, truncated and restored", ALL, over_cases(padding.check_ragged_rows)),
    Contract("mask", "what a mask hides changes nothing", ("mixer", "mask"), check_every_mask),
    Contract(
        "packed",
        "packed texts stay apart, or are refused",
        ("mixer", "position"),
        over_placements(promises.check_packed),
    ),
    Contract("position", "every position that it takes counts", ("mixer", "position"), check_every_position),
    Contract(
        "linear",
        "linear layers are of the config's kind",
        ("mixer", "feedforward"),
        over_sublayer(promises.check_linear_layers),
    ),
    Contract(
        "outputs",
        "residual_outputs scale the output",
        ("mixer", "feedforward"),
        over_sublayer(promises.check_residual_outputs, "self", "feedforward"),
    ),
    Contract("cache", "after 64 and 256 tokens as large as the config says", ("mixer",), check_caches),
    Contract("learning", "it learns, and uses its context", (*ALL, "head"), check_that_it_learns),
)


def find_subject(kind: str, slot: str = "") -> Subject:
    """The kind that is written so, with settings or without; its slot by what it is, unless it is given."""
    name = kind.partition("(")[0].strip()
    if not slot:
        target = name if is_target(name) else installed_kinds()[name].target if name in installed_kinds() else ""
        if not target:
            raise ConfigError(
                f'"{name}" is not a class, such as my_package.module:MyMixer, nor a kind that an installed package '
                "declares. For one of Headway's own give --slot."
            )
        slot = guess_slot(import_own(name, target))
    checked = list(dict.fromkeys(slot for contract in CONTRACTS for slot in contract.slots))
    if slot not in checked:
        what = f"a {slot}" if slot in SLOT_MEMBERS else "this class"
        raise ConfigError(f"there are no checks for {what}: they are for {', '.join(checked)}.")
    find_kind(slot, name)
    make_part(slot, kind)  # an unknown setting is said before anything runs
    return Subject(slot, kind)


def check_kind(subject: Subject) -> Iterator[CheckResult]:
    """Every contract of its slot, one after the other. Whatever the class raises is a failure of that check."""
    for contract in CONTRACTS:
        if subject.slot not in contract.slots:
            continue
        title = f"{contract.name}: {contract.says}"
        try:
            contract.check(subject)
        except NotApplicable as reason:
            yield CheckResult(title, "not applicable", str(reason))
        except AssertionError as error:
            yield CheckResult(title, "failed", str(error))
        except HeadwayError as error:
            yield CheckResult(title, "failed", str(error))
        except Exception as error:
            yield CheckResult(title, "failed", f"{type(error).__name__}: {error}")
        else:
            yield CheckResult(title, "passed")
