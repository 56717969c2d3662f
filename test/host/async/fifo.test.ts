import { expect, test } from "bun:test";

import { Fifo } from "../../../host/async/fifo.ts";

test("a queue returns its items in order, however many were taken before", () => {
  const queue = new Fifo<number>();
  const taken: (number | undefined)[] = [];
  let pushed = 0;
  for (let round = 0; round < 300; round++) {
    queue.push(pushed++);
    queue.push(pushed++);
    taken.push(queue.shift());
  }
  expect([queue.size, queue.first, [...queue].length]).toEqual([300, 300, 300]);
  while (queue.size > 0) taken.push(queue.shift());
  expect(taken).toEqual(Array.from({ length: 600 }, (_, index) => index));
  expect([queue.shift(), queue.first, queue.size]).toEqual([undefined, undefined, 0]);
});

test("a queue that was cleared after items were taken is empty, and serves as a new one does", () => {
  const queue = new Fifo<number>();
  for (const item of [1, 2, 3]) queue.push(item);
  queue.shift();
  queue.clear();
  expect([queue.size, [...queue]]).toEqual([0, []]);
  queue.push(4);
  expect([queue.size, queue.first, queue.shift(), queue.shift()]).toEqual([1, 4, 4, undefined]);
});
