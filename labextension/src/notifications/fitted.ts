/**
 * Messages that JupyterLab shows in full.
 */

/** JupyterLab truncates the messages of notifications after so many characters. */
const LONGEST_MESSAGE = 140;

/** Names are not made shorter than this. */
const SHORTEST_NAME = 8;

/**
 * Format a message with names, the longest of which are shortened until the message is shown in full.
 *
 * @param names - the texts that can be shortened, such as the path of a notebook
 * @param format - formats the message with the names
 */
export function fitted(
  names: string[],
  format: (...names: string[]) => string
): string {
  let longest = Math.max(...names.map(name => name.length));
  let message = format(...names);
  while (message.length > LONGEST_MESSAGE && longest > SHORTEST_NAME) {
    longest -= 1;
    message = format(...names.map(name => shortened(name, longest)));
  }
  return message;
}

/** A text without its middle, if it is longer: a path keeps its first folder and its file. */
function shortened(text: string, longest: number): string {
  const start = Math.floor((longest - 1) / 3);
  const end = longest - 1 - start;
  return text.length > longest
    ? `${text.slice(0, start)}…${text.slice(-end)}`
    : text;
}
