"""The budget of a run: steps, epochs and seconds, and how much of it is spent. 0 means no limit."""

from headway.train.config import TrainConfig
from headway.train.schedules import share_after_warm_up
from headway.train.trainer import TrainState

MAX_VALIDATION_SHARE = 0.05  # of the time so far, for validations before the last
MAX_RESERVED_SHARE = 0.5  # of a time budget, for the validations at its end
UNTIMED_RESERVED_SHARE = 0.1  # the same before the first validation, when nobody knows how long one takes


class RunBudget:
    def __init__(self, settings: TrainConfig) -> None:
        self.settings = settings
        self.validation_seconds: float | None = None  # that the last one took
        self.validations_seconds = 0.0  # that all of them took
        self.rare_validations_described = False

    def limits(self) -> tuple[int, int, float]:
        """Steps, epochs, seconds of taking steps."""
        return self.settings.steps, self.settings.epochs, self.settings.seconds - self.reserved_seconds()

    def reserved_seconds(self) -> float:
        """How much of the time budget the end of the run needs: to validate the last step, and the average of some."""
        budget = self.settings.seconds
        if self.validation_seconds is None:
            return UNTIMED_RESERVED_SHARE * budget
        averages = self.settings.average > 1
        return min((1 + averages) * self.validation_seconds, MAX_RESERVED_SHARE * budget)

    def add_validation(self, seconds: float) -> None:
        self.validation_seconds = seconds
        self.validations_seconds += seconds

    def allows_validation(self, elapsed: float) -> bool:
        """Whether there is time for one before the end. Without a time budget there always is: runs of so many steps
        shall not depend on how fast the machine is."""
        if not self.settings.seconds or self.validation_seconds is None:
            return True
        return self.validations_seconds + self.validation_seconds <= MAX_VALIDATION_SHARE * elapsed

    def describe_rare_validations(self) -> str:
        """Once; then \"\"."""
        if self.rare_validations_described or self.validation_seconds is None:
            return ""
        self.rare_validations_described = True
        return (
            f"a validation takes {self.validation_seconds:.1f} s: there will be fewer than one every "
            f"{self.settings.validate_every:,} steps, so that they take at most {MAX_VALIDATION_SHARE:.0%} of the time"
        )

    def spent_reason(self, state: TrainState, elapsed: float) -> str:
        """What has been used up; "" if the run goes on."""
        spent = zip(("steps", "epochs", "seconds"), (state.step, state.epoch, elapsed), self.limits())
        for name, used, limit in spent:
            if limit and used >= limit:
                return f"train.{name} = {getattr(self.settings, name):g} reached"
        patience = self.settings.patience
        return f"no improvement in {state.stale} validations" if 0 < patience <= state.stale else ""

    def share_done(self, state: TrainState, elapsed: float) -> float:
        """Which share of the budget is spent, by the limit that will end the run first."""
        spent = zip((state.step, state.epoch + state.share, elapsed), self.limits())
        return min(max((used / limit for used, limit in spent if limit), default=0.0), 1.0)

    def decay_share(self, state: TrainState, elapsed: float) -> float:
        """Which share of the time after the warm-up is over, by epochs and seconds, which a schedule does not know."""
        _, *limits = self.limits()
        spent = (state.epoch + state.share, elapsed)
        if state.step < self.settings.schedule.warmup:
            state.warm_epochs, state.warm_seconds = spent
        shares = zip(spent, (state.warm_epochs, state.warm_seconds), limits)
        return max((share_after_warm_up(*share) for share in shares if share[-1]), default=0.0)
