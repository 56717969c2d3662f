import type { JSX } from "preact";

import type { Answers } from "../schema.ts";
import type { Answer } from "./live.ts";
import { sentence, View } from "./parts.tsx";

/** The remedy for each trouble, or for one. */
export const RunbookView = ({
  query,
  answer,
}: {
  readonly query: string;
  readonly answer: Answer<Answers["runbook"]>;
}): JSX.Element => (
  <View title="Runbook" json={`/ui/runbook?${query === "" ? "" : `${query}&`}format=json`} answer={answer}>
    {({ rows }) => (
      <>
        {rows.map(({ name, remedy }) => (
          <section key={name} aria-labelledby={name}>
            <h2 id={name}>{name}</h2>
            <p>
              <Markdown text={sentence(remedy)} />
            </p>
          </section>
        ))}
        {rows.length === 0 && <p>Unknown row.</p>}
        {query !== "" && <a href="/ui/runbook">All rows</a>}
      </>
    )}
  </View>
);

/** Code between backticks; of a link its text and its file, which is not served here. */
const Markdown = ({ text }: { readonly text: string }): JSX.Element => (
  <>
    {text
      .replaceAll(/\[([^\]]*)\]\(([^)#]*)[^)]*\)/gu, "$1 (deploy/$2)")
      .split("`")
      .map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}
  </>
);
