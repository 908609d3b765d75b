"""A chat in a real browser: its threads, and what can be done with messages and answers."""

import json
import secrets

import httpx
import pytest

from tests.support import javascript
from tests.support.console_page import SOURCE, chat, problems_on_a_phone, say
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet

pytestmark = pytest.mark.timeout(300)

_ENDED = "document.querySelectorAll('[data-state=finished] .feedback').length"
_CODE = "Look:\n\n```python\nprint('<b>hello</b>')\n```\n"
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_an_answer_is_rated_with_a_comment_that_the_tasks_log_keeps(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    await chat(page, fleet.gateways[0], "backend_tool_rendering")
    await say(page, "the weather in Rome")
    await page.until(f"{_ENDED} === 1", "it is answered")
    assert await page.evaluate("document.querySelector('.tool').open") is False
    await page.click("[name=down]")
    await page.type("[name=comment]", "Too warm")
    assert await problems_on_a_phone(page) == []
    await page.click(".comment [type=submit]")
    await page.until("!document.querySelector('.comment')", "it is saved")
    task = (await page.text(".task-link")).split()[-1]
    path = f"{fleet.gateways[1]}/v1/agents/backend_tool_rendering/tasks/{task}/feedback"
    stored = (await http.get(path)).raise_for_status().json()["feedback"]
    assert (stored["rating"], stored["comment"]) == ("down", "Too warm")
    await page.reload()
    pressed = "document.querySelector('[name=down]')?.getAttribute('aria-pressed')"
    await page.until(f"{pressed} === 'true'", "it is there again")
    await page.click("[name=down]")
    await page.until(f"{pressed} === 'false'", "it is withdrawn")


async def test_a_message_is_tried_again_and_edited_into_another_thread(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    await chat(page, fleet.gateways[0], "echo")
    await say(page, "one")
    await page.until(f"{_ENDED} === 1", "it is answered")
    await say(page, "two")
    await page.until(f"{_ENDED} === 2", "it is answered")
    await page.click(".run:last-of-type [aria-label='Try again']")
    await page.until(f"{_ENDED} === 3", "it is answered again")
    said = "[...document.querySelectorAll('.user')].map((one) => one.innerText).join()"
    assert await page.evaluate(said) == "one,two,two"
    place = await page.evaluate("location.hash")
    await page.evaluate("document.querySelectorAll('[aria-label=\"Edit the message\"]')[1].click()")
    await page.until("document.activeElement?.name === 'edited'", "it can be edited")
    assert await problems_on_a_phone(page) == []
    await page.evaluate("document.activeElement.select()")
    await page.type("[name=edited]", "three")
    await page.click(".edit [type=submit]")
    await page.until(f"location.hash !== {json.dumps(place)}", "it is another thread")
    await page.until(f"{said} === 'one,three' && {_ENDED} === 1", "it goes on from there")
    await page.reload()
    await page.until(f"{said} === 'one,three' && {_ENDED} === 1", "also after a reload")
    await page.evaluate(f"location.hash = {json.dumps(place)}")
    await page.until(f"{said} === 'one,two,two'", "the thread itself stays as it was")


async def test_a_reader_who_has_scrolled_up_stays_there_while_the_answer_grows(
    fleet: Fleet, page: Page
) -> None:
    await page.resize(390, 420)
    await chat(page, fleet.gateways[0], "counter")
    await say(page, "3000 5")
    room = "document.querySelector('.scroll')"
    await page.until(f"{room}.scrollHeight > 2 * {room}.clientHeight", "it is long")
    end = f"{room}.scrollHeight - {room}.scrollTop - {room}.clientHeight"
    await page.until(f"{end} < 60", "the end is in view")
    await page.evaluate(f"{room}.scrollTop = 40")
    before = await page.evaluate(f"{room}.scrollHeight")
    await page.until(f"{room}.scrollHeight > {before} + 100", "it grows")
    assert await page.evaluate(f"{room}.scrollTop") == 40
    await page.click(".to-end")
    await page.until(f"{end} < 60", "the end is in view again")
    await page.click("[name=stop]")
    await page.until("document.querySelector('[data-state=cancelled]')", "it is stopped")


async def test_texts_have_their_own_direction_and_the_composer_stays_above_a_keyboard(
    fleet: Fleet, page: Page
) -> None:
    await page.resize(390, 760)
    await chat(page, fleet.gateways[0], "echo")
    await say(page, "\u0645\u0631\u062d\u0628\u0627 123")
    await page.until(f"{_ENDED} === 1", "it is answered")
    gap = (
        "{const text = document.querySelector('.answer .markdown p');"
        "const range = document.createRange(); range.selectNodeContents(text);"
        "text.getBoundingClientRect().right - range.getBoundingClientRect().right}"
    )
    assert await page.evaluate(gap) < 2, "it begins at the right"
    await page.evaluate(
        "Object.defineProperty(visualViewport, 'height', {value: 400, configurable: true});"
        "visualViewport.dispatchEvent(new Event('resize')); 0"
    )
    bottom = "document.querySelector('.composer').getBoundingClientRect().bottom"
    await page.until(f"{bottom} <= 400 && {bottom} > 300", "it is above the keyboard")


async def test_code_is_copied_and_pictures_are_shown_also_after_a_reload(
    fleet: Fleet, page: Page
) -> None:
    await chat(page, fleet.gateways[0], "echo")
    await page.evaluate(
        "navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }; 0"
    )
    await say(page, _CODE)
    await page.until(f"{_ENDED} === 1", "it is answered")
    await page.click(".answer .copy")
    await page.until("globalThis.copied === \"print('<b>hello</b>')\"", "the code, as it is")
    await chat(page, fleet.gateways[0], "multimodal")
    await page.evaluate(
        f"{{const bytes = Uint8Array.from(atob('{_PIXEL}'), (one) => one.charCodeAt(0));"
        "const files = new DataTransfer();"
        "files.items.add(new File([bytes], 'dot.png', {type: 'image/png'}));"
        "const input = document.querySelector('input[type=file]'); input.files = files.files;"
        "input.dispatchEvent(new Event('change'))}"
    )
    await page.until("document.querySelector('.chosen li')", "the picture is chosen")
    await page.click(".composer [type=submit]")
    shown = "document.querySelector('.user img')?.naturalWidth === 1"
    await page.until(shown, "the picture is shown")
    await page.until(f"{_ENDED} === 1", "it is answered")
    await page.reload()
    await page.until(shown, "the picture is shown again")


async def test_threads_are_found_renamed_archived_and_deleted(fleet: Fleet, page: Page) -> None:
    javascript.install(SOURCE)
    word = f"word{secrets.token_hex(4)}"
    for text in (f"{word} one", f"{word} two"):
        # The thread that is open would take the message, which is typed at once.
        await page.open("about:blank")
        await chat(page, fleet.gateways[0], "echo")
        await say(page, text)
        await page.until(f"{_ENDED} === 1", "it is answered")
    titles = "[...document.querySelectorAll('.thread-title')].map((one) => one.innerText).join()"
    await page.type("[name=thread-search]", word)
    await page.until(f"{titles} === '{word} two,{word} one'", "both are found, the latest first")
    assert await page.evaluate("document.querySelector('.threads [aria-current]').innerText")
    await page.click(".threads li:last-child a")
    await page.until("document.querySelector('.user')?.innerText.endsWith('one')", "it is opened")

    async def choose(entry: str) -> None:
        await page.click(".threads li:last-child .icon")
        entries = "[...document.querySelectorAll('[role=menuitem]')]"
        wanted = f"{entries}.find((one) => one.innerText.trim() === '{entry}')"
        await page.until(wanted, f"{entry} can be chosen")
        await page.evaluate(f"{wanted}.click()")

    await choose("Rename")
    await page.until("document.querySelector('dialog[open]')", "the title is asked for")
    await page.evaluate("document.querySelector('dialog[open] [name=title]').select()")
    await page.type("dialog[open] [name=title]", f"{word} renamed")
    assert await problems_on_a_phone(page) == []
    await page.click("dialog[open] [type=submit]")
    await page.until(f"{titles}.includes('{word} renamed')", "it is renamed")
    await page.until(f"document.title.startsWith('{word} renamed')", "so is the tab")
    await choose("Archive")
    await page.until(f"{titles} === '{word} two'", "it is archived")
    await page.click(".toast .plain")
    await page.until(f"{titles}.includes('renamed')", "that is taken back")
    await page.resize(390, 760)
    await page.click(".only-narrow button")
    assert await problems_on_a_phone(page) == []
    await choose("Delete")
    await page.click("dialog[open] [type=submit]")
    await page.until(f"{titles} === '{word} two'", "it is deleted")
    await page.until("!document.querySelector('.user')", "another one is open")
