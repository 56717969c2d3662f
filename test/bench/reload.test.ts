import { expect, test } from "bun:test";

import { pageFigures } from "./reload.ts";

const valueOf = (figures: ReturnType<typeof pageFigures>, name: string) =>
  figures.find((figure) => figure.name === name)?.value;

test("reloads beside open pages are compared with those in between, once the process is warm", () => {
  const cold = Array.from({ length: 50 }, () => 1_000);
  const gaps = [...cold, ...Array.from({ length: 100 }, (_, index) => (index % 2 === 0 ? 10 : 15))];
  const figures = pageFigures(
    gaps,
    gaps.map((_, index) => index % 2 === 1),
  );
  expect(valueOf(figures, "p99WithoutPagesMs")).toBe(10);
  expect(valueOf(figures, "p99WithPagesMs")).toBe(15);
  expect(valueOf(figures, "p99PagesRatio")).toBe("1.50");
  expect(figures.find(({ name }) => name === "p50WithPagesMs")?.unit).toContain("of 50 reloads");
});

test("a comparison in which no page was open is refused", () => {
  expect(() => pageFigures([1, 2], [false, false])).toThrow("raise --times");
});
