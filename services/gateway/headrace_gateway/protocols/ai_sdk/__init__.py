"""The Vercel AI SDK's UI message stream: `useChat` of the SDK's current major, 7."""
