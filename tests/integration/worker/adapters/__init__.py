"""Every adapter in one suite; its assertions tell what they compared, as those of test modules."""

import pytest

pytest.register_assert_rewrite("tests.integration.worker.adapters.behaviour")
