import type { IpTag } from "@azure/arm-network";

/** `Type=Tag` pairs; malformed ones are dropped, of one type the last is valid. Source: upstream `getIPTagMap`. */
export function parseIPTags(text: string): readonly IpTag[] {
  const tags = new Map<string, string>();
  for (const entry of text.split(",")) {
    const [type, tag, ...more] = entry.split("=");
    if (type !== undefined && tag !== undefined && more.length === 0) tags.set(type.trim(), tag.trim());
  }
  return [...tags].map(([ipTagType, tag]) => ({ ipTagType, tag }));
}

const sorted = (tags: readonly IpTag[]): readonly string[] =>
  tags.map(({ ipTagType, tag }) => `${ipTagType}=${tag}`).toSorted();

/** Source: upstream `areIPTagsEquivalent`. */
export const sameIPTags = (left: readonly IpTag[] = [], right: readonly IpTag[] = []): boolean =>
  sorted(left).join() === sorted(right).join();
