import { CodedError } from "cloud-controller-host/sdk";

const stages = ["BUILD_IMAGE", "BASE_IMAGE"] as const;

/** An image that the Containerfile builds on. */
export interface BaseImage {
  readonly stage: (typeof stages)[number];
  /** Without a tag. */
  readonly repository: string;
  readonly tag: string;
  /** Hex; undefined where the tag was not resolved. */
  readonly sha256: string | undefined;
}

/** The images of the Containerfile, with the digests that the build was given in variables of the same names. */
export const baseImages = (
  containerfile: string,
  environment: Readonly<Record<string, string | undefined>>,
): readonly BaseImage[] =>
  stages.map((stage) => {
    const [, repository, tag] = new RegExp(`^ARG ${stage}=(\\S+):([^\\s:]+)$`, "m").exec(containerfile) ?? [];
    if (repository === undefined || tag === undefined)
      throw new CodedError("BuildFailed", `deploy/Containerfile has no default for ${stage}`);
    const resolved = environment[stage];
    const [, sha256] = /@sha256:([0-9a-f]{64})$/.exec(resolved ?? "") ?? [];
    if (resolved !== undefined && (sha256 === undefined || !resolved.startsWith(`${repository}@`)))
      throw new CodedError("BuildFailed", `${stage} must be ${repository}@sha256:…, not ${resolved}`);
    return { stage, repository, tag, sha256 };
  });

/** Source: package-url specification, type `oci`. */
export const purlOfImage = ({ repository, tag, sha256 }: BaseImage): string => {
  const name = repository.slice(repository.lastIndexOf("/") + 1);
  const version = sha256 === undefined ? "" : `@sha256%3A${sha256}`;
  return `pkg:oci/${name}${version}?repository_url=${repository}&tag=${tag}`;
};

/** Part of the image that no lock file names. */
export interface ImagePart {
  readonly type: "container" | "platform";
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly license: string;
  readonly sha256: string | undefined;
}

/** The base image, and the runtime that it brings. */
export function imageParts(images: readonly BaseImage[]): readonly ImagePart[] {
  const base = images.find(({ stage }) => stage === "BASE_IMAGE");
  if (base === undefined) return [];
  const { repository, tag, sha256 } = base;
  const [bun = ""] = tag.split("-");
  const purl = `pkg:github/oven-sh/bun@bun-v${bun}`;
  return [
    { type: "container", name: repository, version: tag, purl: purlOfImage(base), license: "NOASSERTION", sha256 },
    { type: "platform", name: "bun", version: bun, purl, license: "MIT", sha256: undefined },
  ];
}
