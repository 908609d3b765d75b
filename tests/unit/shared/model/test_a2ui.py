import orjson
import pytest

from headrace.model import a2ui
from headrace.model.a2ui import BASIC_CATALOG, COMPONENTS, CREATE, DATA, DELETE, OPERATIONS
from headrace.model.events import Json

CREATED = a2ui.message(CREATE, "s", catalogId=BASIC_CATALOG)
TITLE: Json = {"id": "root", "component": "Text", "text": {"path": "/title"}}


def drawn(*messages: Json) -> Json:
    surface = a2ui.DrawnSurface(CREATED)
    for message in a2ui.check_messages(messages):
        surface.apply(message)
    return surface.content()


def test_a_surfaces_content_is_the_fewest_messages_that_draw_it() -> None:
    more = {"id": "root", "component": "Text", "text": "Hi"}
    other = {"id": "other", "component": "Divider"}
    content = drawn(
        a2ui.message(COMPONENTS, "s", components=[TITLE]),
        a2ui.message(DATA, "s", path="/title", value="A"),
        a2ui.message(COMPONENTS, "s", components=[other, more]),
        a2ui.message(DATA, "s", path="/title", value="B"),
    )
    assert content == {
        OPERATIONS: [
            CREATED,
            a2ui.message(COMPONENTS, "s", components=[more, other]),
            a2ui.message(DATA, "s", path="/", value={"title": "B"}),
        ]
    }
    assert a2ui.DrawnSurface.read(content).content() == content


@pytest.mark.parametrize(
    ("path", "value", "after"),
    [
        ("/", {"n": 1}, {"n": 1}),
        ("/a/b", 1, {"list": [{"n": 1}, 2], "a": {"b": 1}}),
        ("/list/0/n", 5, {"list": [{"n": 5}, 2]}),
        ("/list/1", "x", {"list": [{"n": 1}, "x"]}),
        ("/list/2", "x", {"list": [{"n": 1}, 2, "x"]}),
        ("/a~1b~0c", 1, {"list": [{"n": 1}, 2], "a/b~c": 1}),
        ("/list", None, {}),
    ],
)
def test_data_is_set_where_its_path_points(path: str, value: object, after: object) -> None:
    before = a2ui.message(DATA, "s", value={"list": [{"n": 1}, 2]})
    message = a2ui.message(DATA, "s", path=path, value=value)
    assert drawn(before, message)[OPERATIONS][-1][DATA]["value"] == after


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ({}, "messages: must be a list of A2UI messages"),
        ([1], "messages[0]: must be an object"),
        ([CREATED, {}], "messages[1]: must have exactly one of createSurface, "),
        ([CREATED | a2ui.message(DELETE, "s")], "messages[0]: must have exactly one of "),
        ([{CREATE: 1}], "messages[0].createSurface: must be an object"),
        ([{CREATE: {"surfaceId": "s"}}], "messages[0].createSurface.catalogId: must be a text"),
        ([{DELETE: {"surfaceId": ""}}], "messages[0].deleteSurface.surfaceId: must be a text"),
        ([a2ui.message(COMPONENTS, "s")], "messages[0].updateComponents.components: must be a"),
        (
            [a2ui.message(COMPONENTS, "s", components=[TITLE, {"component": "Text"}])],
            "messages[0].updateComponents.components[1].id: must be a text",
        ),
        (
            [a2ui.message(COMPONENTS, "s", components=[{"id": "x", "Text": {}}])],
            "messages[0].updateComponents.components[0].component: must be",
        ),
        ([a2ui.message(DATA, "s", path="x")], "messages[0].updateDataModel.path: must be a JSON"),
        (
            [a2ui.message(DATA, "s", path="/a" * 5_000, value=1)],
            "messages[0].updateDataModel: must not be nested deeper than 90",
        ),
        (
            [a2ui.message(DATA, "s", path="/a" * 60, value=orjson.loads("[" * 40 + "]" * 40))],
            "messages[0].updateDataModel: must not be nested deeper than 90",
        ),
    ],
)
def test_what_is_no_message_of_a2ui_is_named(messages: object, problem: str) -> None:
    with pytest.raises(a2ui.SurfaceInvalid) as refused:
        a2ui.check_messages(messages)
    assert str(refused.value).startswith(problem)


def test_a_deleted_surface_can_not_be_changed() -> None:
    with pytest.raises(ValueError, match="deleted"):
        a2ui.DrawnSurface.read({OPERATIONS: [a2ui.message(DELETE, "s")]})
