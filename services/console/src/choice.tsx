/** A labelled list of which one option is chosen. */

interface ChoiceProps {
  label: string;
  options: readonly string[];
  chosen: string;
  /** Text of the option that chooses nothing; absent: there is none. */
  none?: string;
  /** Text of an option; absent: the option itself. */
  text?: (option: string) => string;
  onChoose: (option: string) => void;
}

export function Choice({ label, options, chosen, none, text, onChoose }: ChoiceProps) {
  return (
    <label>
      {label}
      <select value={chosen} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {options.map((one) => (
          <option key={one} value={one}>{text ? text(one) : one}</option>
        ))}
      </select>
    </label>
  );
}
