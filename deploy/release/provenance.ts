import { type BaseImage, purlOfImage } from "./base-images.ts";

/** A file of the release, or the image, with its digest. */
export interface Artifact {
  readonly name: string;
  /** Hex. */
  readonly sha256: string;
}

export interface Build {
  /** The repository's URL. */
  readonly source: string;
  readonly revision: string;
  /** The URL of the build system. The statement is proof only if no other party controls that system. */
  readonly builder: string;
  readonly invocation: string;
  readonly startedOn: Date;
  /** SHA-256 of bun.lock, hex. */
  readonly lockFileSha256: string;
  readonly images: readonly BaseImage[];
}

/** Source: in-toto Statement v1 with the predicate of SLSA provenance v1. */
export const provenance = (artifacts: readonly Artifact[], build: Build): object => ({
  _type: "https://in-toto.io/Statement/v1",
  subject: artifacts.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
  predicateType: "https://slsa.dev/provenance/v1",
  predicate: {
    buildDefinition: {
      buildType: `${build.source}/tree/main/deploy/release`,
      externalParameters: { source: build.source, revision: build.revision },
      resolvedDependencies: [
        { uri: `git+${build.source}@${build.revision}`, digest: { gitCommit: build.revision } },
        { uri: "file:bun.lock", digest: { sha256: build.lockFileSha256 } },
        ...build.images.map((image) => ({
          name: image.stage,
          uri: purlOfImage(image),
          ...(image.sha256 !== undefined && { digest: { sha256: image.sha256 } }),
        })),
      ],
    },
    runDetails: {
      builder: { id: build.builder },
      metadata: { invocationId: build.invocation, startedOn: build.startedOn.toISOString() },
    },
  },
});
