/** Text from outside as it may go to a terminal: no control character moves the cursor or begins a new line. */
export function escapeControls(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach the terminal
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
