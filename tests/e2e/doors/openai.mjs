// OpenAI's client for JavaScript: reads {url, other} from stdin, prints what it received.
import OpenAI from "openai";

const { url, other } = JSON.parse(await new Response(process.stdin).text());
const client = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });

const models = [];
for await (const model of client(url).models.list()) models.push(model.id);

const stream = await client(url).responses.create({
  model: "counter", input: "20 20", stream: true,
});
const seen = [];
let text = "", response;
for await (const event of stream) {
  seen.push(event.sequence_number);
  if (event.type === "response.created") response = event.response.id;
  if (event.type === "response.output_text.delta") text += event.delta;
  if (text.endsWith("5 ")) break;
}
const rest = await client(other).responses.retrieve(response, {
  stream: true, starting_after: seen.at(-1),
});
let last;
for await (const event of rest) {
  seen.push(event.sequence_number);
  if (event.type === "response.output_text.delta") text += event.delta;
  last = event;
}

const chat = client(url).chat.completions.stream({
  model: "counter", messages: [{ role: "user", content: "5" }],
});
const completion = await chat.finalChatCompletion();

const refused = await client(url).responses
  .create({ model: "nobody", input: "x" })
  .then(() => null, (error) => ({ status: error.status, code: error.code }));

console.log(JSON.stringify({
  models, text, seen, status: last.response.status,
  whole: last.response.output[0].content[0].text,
  chat: completion.choices[0].message.content, refused,
}));
