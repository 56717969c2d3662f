import type { PipelinePolicy } from "@azure/core-rest-pipeline";
import { CodedError, isObject } from "cloud-controller-host/sdk";

import { parseJson, stringAt } from "../../json.ts";
import { keepLatest } from "../../keep-latest.ts";
import { isRead, targetOf } from "./target.ts";

/** Pages of one list at most. */
const maxPages = 5000;
/** Pages in a row without an item. ARM sends a few, where a filter leaves nothing of a page. */
const maxEmptyPages = 100;
/** Lists that are followed at most; those that were given up are forgotten first. */
const maxLists = 200;

/** A list so far: the addresses of its pages, and how many of the last ones had no item. */
interface Followed {
  readonly pages: Set<string>;
  readonly emptyPages: number;
}

/** Ends lists whose pages would go on without end: a next page that was read before, or too many pages, or empty ones. */
export function pagingPolicy(): PipelinePolicy {
  /** By the address of the next page. */
  const lists = new Map<string, Followed>();
  return {
    name: "paging",
    async sendRequest(request, next) {
      const response = await next(request);
      if (!isRead(request.method)) return response;
      const { pages, emptyPages } = lists.get(request.url) ?? { pages: new Set([request.url]), emptyPages: 0 };
      lists.delete(request.url);
      const body = response.bodyAsText ?? "";
      const link = nextLinkIn(body);
      if (link === undefined) return response;
      const followed = { pages, emptyPages: isEmptyPage(body) ? emptyPages + 1 : 0 };
      const problem = problemOf(followed, link);
      if (problem !== undefined)
        throw new CodedError("EndlessList", `ARM ${request.method} ${targetOf(request.url).path}: ${problem}`);
      pages.add(link);
      lists.set(link, followed);
      keepLatest(lists, maxLists);
      return response;
    },
  };
}

function problemOf({ pages, emptyPages }: Followed, link: string): string | undefined {
  if (pages.has(link)) return "its next page is one that was read before";
  if (pages.size >= maxPages) return `it has more than ${maxPages} pages`;
  return emptyPages > maxEmptyPages ? `it has more than ${maxEmptyPages} empty pages in a row` : undefined;
}

/** Only a reply that is short enough to be one is parsed. */
const isEmptyPage = (body: string): boolean => {
  const page = body.length > 2 * maxLinkLength ? undefined : parseJson(body);
  return isObject(page) && Array.isArray(page["value"]) && page["value"].length === 0;
};

/** Only a reply that has such a key anywhere is parsed: a page may have megabytes. */
function nextLinkIn(body: string): string | undefined {
  const last = /"nextLink"\s*:\s*("(?:[^"\\]|\\.)*")\s*\}\s*$/u.exec(body.slice(-maxLinkLength))?.[1];
  if (last === undefined && !body.includes('"nextLink"')) return undefined;
  const parsed = last === undefined ? parseJson(body) : { nextLink: parseJson(last) };
  return (isObject(parsed) ? stringAt(parsed, "nextLink") : undefined) || undefined;
}

const maxLinkLength = 8192;
