"""An AG-UI agent behind HTTP, served through this fleet.

From this folder: ``headrace dev --agents ag_ui_backend:painter``. Needs ``headrace[ag-ui]``, and an
AG-UI agent at `PAINTER_URL`.
"""

from headrace.adapters import ag_ui_agent

PAINTER_URL = "http://127.0.0.1:9000/agent"

painter = ag_ui_agent(PAINTER_URL, name="painter", description="Paints.", memory="task")
