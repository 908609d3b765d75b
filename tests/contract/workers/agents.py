"""What the Python worker of these tests serves."""

from headrace import Agents
from tests.contract.workers.repeater import loner, repeater

agents = Agents([repeater, loner])
