import { useState } from "preact/hooks";

import { pictureOf, save, storedAt, type FileContent } from "./files";

/** A file: a picture is shown, others are saved. */
export function FileView({ file }: { file: FileContent }) {
  const [error, setError] = useState("");
  const picture = pictureOf(file);
  const isHere = file.data !== "" || storedAt(file.url) !== "";
  const onClick = () => {
    setError("");
    save(file).catch((reason: Error) => setError(reason.message));
  };
  return (
    <div class="file">
      {picture && <img src={picture} alt={file.name} />}
      <div class="file-line">
        <span class="file-name">{file.name}</span>
        <span class="soft">{file.mediaType || "unknown type"}</span>
        {isHere ? (
          <button type="button" class="plain small" onClick={onClick}>
            Save<span class="unseen"> {file.name}</span>
          </button>
        ) : (
          <span class="soft mono">{file.url}</span>
        )}
      </div>
      {error && <p class="error" role="alert">{error}</p>}
    </div>
  );
}
