"""What the Python worker of these tests serves."""

from headrace import Agents
from tests.contract.workers.parrot import loner, parrot

agents = Agents([parrot, loner])
