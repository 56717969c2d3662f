import { expect, test } from "bun:test";

import { Turns } from "../../../host/async/turns.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("work starts at once while there is little, and otherwise 16 pieces per turn, the urgent ones first", async () => {
  const turns = new Turns(16);
  const started: string[] = [];
  const start = (name: string, count: number): void => {
    for (let i = 0; i < count; i++) turns.start(name === "urgent", () => started.push(name));
  };
  const perTurn = (): string => {
    const names = started.splice(0);
    return `${names.filter((name) => name === "urgent").length} urgent, ${names.filter((name) => name === "other").length} others`;
  };
  start("other", 40);
  start("urgent", 20);
  expect(perTurn()).toBe("0 urgent, 16 others");
  await turn();
  expect(perTurn()).toBe("16 urgent, 0 others");
  start("other", 1);
  await turn();
  expect(perTurn()).toBe("4 urgent, 12 others");
  await turn();
  expect(perTurn()).toBe("0 urgent, 13 others");
  await turn();
  start("other", 16);
  expect(perTurn()).toBe("0 urgent, 16 others");
});
