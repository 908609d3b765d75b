import { Download, FileText } from "lucide";
import { useEffect, useState } from "preact/hooks";

import { Icon } from "../ui/icon";
import { fetchPicture, isStoredPicture, pictureOf, save, storedAt, type FileContent } from "./files";

/** A file: a picture is shown, others are saved. */
export function FileView({ file }: { file: FileContent }) {
  const [error, setError] = useState("");
  const stored = useStoredPicture(file);
  const picture = pictureOf(file) || stored;
  const isHere = file.data !== "" || storedAt(file.url) !== "";
  const onClick = () => {
    setError("");
    save(file).catch((reason: Error) => setError(reason.message));
  };
  return (
    <div class="file">
      {picture && <img src={picture} alt={file.name} />}
      <div class="file-line">
        {!picture && <Icon of={FileText} />}
        <span class="file-name">{file.name}</span>
        <span class="soft">{file.mediaType || "unknown type"}</span>
        {isHere ? (
          <button type="button" class="plain small" onClick={onClick}>
            <Icon of={Download} size={14} /> Save<span class="unseen"> {file.name}</span>
          </button>
        ) : (
          <span class="soft mono">{file.url}</span>
        )}
      </div>
      {error && <p class="error" role="alert">{error}</p>}
    </div>
  );
}

function useStoredPicture(file: FileContent): string {
  const [address, setAddress] = useState("");
  useEffect(() => {
    if (!isStoredPicture(file)) return;
    const aborting = new AbortController();
    let made = "";
    fetchPicture(file, aborting.signal).then((one) => setAddress((made = one)), () => {});
    return () => {
      aborting.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [file.url]);
  return address;
}
