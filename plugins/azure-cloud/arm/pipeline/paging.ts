import type { PipelinePolicy } from "@azure/core-rest-pipeline";
import { CodedError, isObject } from "cloud-controller-host/sdk";

import { parseJson, stringAt } from "../../json.ts";
import { isRead, targetOf } from "./target.ts";

/** Pages of one list at most. */
const maxPages = 5000;
/** Lists that are followed at most; those that were given up are forgotten first. */
const maxLists = 200;

/** Ends lists whose pages would go on without end: a next page that was read before, or too many pages. */
export function pagingPolicy(): PipelinePolicy {
  /** Addresses of a list's pages so far, by the address of its next page. */
  const lists = new Map<string, Set<string>>();
  return {
    name: "paging",
    async sendRequest(request, next) {
      const response = await next(request);
      if (!isRead(request.method)) return response;
      const pages = lists.get(request.url) ?? new Set([request.url]);
      lists.delete(request.url);
      const link = nextLinkIn(response.bodyAsText ?? "");
      if (link === undefined) return response;
      const problem = pages.has(link)
        ? "its next page is one that was read before"
        : pages.size >= maxPages
          ? `it has more than ${maxPages} pages`
          : undefined;
      if (problem !== undefined)
        throw new CodedError("EndlessList", `ARM ${request.method} ${targetOf(request.url).path}: ${problem}`);
      lists.set(link, pages.add(link));
      const [oldest] = lists.keys();
      if (lists.size > maxLists && oldest !== undefined) lists.delete(oldest);
      return response;
    },
  };
}

/** Only a reply that has such a key anywhere is parsed: a page may have megabytes. */
function nextLinkIn(body: string): string | undefined {
  const last = /"nextLink"\s*:\s*("(?:[^"\\]|\\.)*")\s*\}\s*$/u.exec(body.slice(-maxLinkLength))?.[1];
  if (last === undefined && !body.includes('"nextLink"')) return undefined;
  const parsed = last === undefined ? parseJson(body) : { nextLink: parseJson(last) };
  return (isObject(parsed) ? stringAt(parsed, "nextLink") : undefined) || undefined;
}

const maxLinkLength = 8192;
