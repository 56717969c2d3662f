import { expect, test } from "bun:test";

import { Turns } from "../../../../host/process/serving/turns.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("requests start at once while there are few, and otherwise 16 per turn, those of authenticated clients first", async () => {
  const turns = new Turns();
  const started: string[] = [];
  const start = (name: string, count: number): void => {
    for (let i = 0; i < count; i++) turns.start(name === "known", () => started.push(name));
  };
  const perTurn = (): string => {
    const names = started.splice(0);
    return `${names.filter((name) => name === "known").length} known, ${names.filter((name) => name === "stranger").length} strangers`;
  };
  start("stranger", 40);
  start("known", 20);
  expect(perTurn()).toBe("0 known, 16 strangers");
  await turn();
  expect(perTurn()).toBe("16 known, 0 strangers");
  start("stranger", 1);
  await turn();
  expect(perTurn()).toBe("4 known, 12 strangers");
  await turn();
  expect(perTurn()).toBe("0 known, 13 strangers");
  await turn();
  start("stranger", 16);
  expect(perTurn()).toBe("0 known, 16 strangers");
});
