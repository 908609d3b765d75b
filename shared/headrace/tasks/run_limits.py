"""What a run is checked against before it begins."""

from headrace.model.task import TaskKey
from headrace.tasks.admission import Admission, AdmittedRun
from headrace.tasks.quotas import Quotas, Use


class RunLimits:
    """Quotas, and the limits of waiting runs."""

    def __init__(self, admission: Admission, quotas: Quotas | None = None) -> None:
        """Begin runs that `admission` and `quotas` admit."""
        self._admission, self._quotas = admission, quotas

    async def check(self, key: TaskKey, owner: str) -> None:
        """Return if the quotas let `owner` use the agent of `key`.

        Raises:
            QuotaExceeded: a quota is used up.
        """
        if self._quotas is not None:
            await self._quotas.check(Use(key.tenant, owner, key.agent))

    async def admit(self, key: TaskKey, owner: str) -> AdmittedRun:
        """Count one more run of `key`'s tenant and agent as waiting.

        Raises:
            QuotaExceeded: a quota is used up.
            TooManyWaiting: a limit of waiting runs is reached.
        """
        if self._quotas is not None:  # One call less for each run of a fleet without quotas.
            await self.check(key, owner)
        return await self._admission.admit(key)
