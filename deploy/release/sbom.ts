import { createHash } from "node:crypto";

import type { ImagePart } from "./base-images.ts";
import { idOf, type LockedPackage, type ProductionPackages } from "./lock-file.ts";

/** The program that the bill of materials is for. */
export interface Subject {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** The git commit. */
  readonly revision: string;
  /** Of the commit: two runs on one commit write the same bytes. */
  readonly created: Date;
  /** License expressions by `name@version`, where the package declares one. */
  readonly licenses: ReadonlyMap<string, string>;
  /** Of the image, beside the packages. */
  readonly parts: readonly ImagePart[];
}

const purlOf = ({ name, version }: Pick<LockedPackage, "name" | "version">): string =>
  `pkg:npm/${name.replace("@", "%40")}@${version}`;

const spdxId = (id: string): string => `SPDXRef-${id.replaceAll(/[^A-Za-z0-9.-]/g, "-")}`;

const seconds = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, "Z");

const purlReference = (purl: string): readonly object[] => [
  { referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl },
];

/** Source: SPDX specification 2.3. */
export function spdx(subject: Subject, { direct, packages }: ProductionPackages): object {
  const own = spdxId(idOf(subject));
  const describe = (name: string, versionInfo: string, licenseDeclared: string): object => ({
    name,
    SPDXID: spdxId(`${name}@${versionInfo}`),
    versionInfo,
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    licenseConcluded: "NOASSERTION",
    licenseDeclared,
    copyrightText: "NOASSERTION",
  });
  const relation = (from: string, relationshipType: string, to: string): object => ({
    spdxElementId: from,
    relationshipType,
    relatedSpdxElement: to,
  });
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: idOf(subject),
    documentNamespace: `https://spdx.org/spdxdocs/${subject.name}-${subject.version}-${subject.revision}`,
    creationInfo: { created: seconds(subject.created), creators: ["Tool: deploy/release/build.ts"] },
    packages: [
      describe(subject.name, subject.version, subject.license),
      ...packages.map((one) => ({
        ...describe(one.name, one.version, subject.licenses.get(idOf(one)) ?? "NOASSERTION"),
        checksums: [{ algorithm: "SHA512", checksumValue: one.sha512 }],
        externalRefs: purlReference(purlOf(one)),
      })),
      ...subject.parts.map(({ name, version, license, purl, sha256 }) => ({
        ...describe(name, version, license),
        ...(sha256 !== undefined && { checksums: [{ algorithm: "SHA256", checksumValue: sha256 }] }),
        externalRefs: purlReference(purl),
      })),
    ],
    relationships: [
      relation("SPDXRef-DOCUMENT", "DESCRIBES", own),
      ...direct.map((id) => relation(own, "DEPENDS_ON", spdxId(id))),
      ...subject.parts.map((part) => relation(own, "DEPENDS_ON", spdxId(idOf(part)))),
      ...packages.flatMap((one) => one.dependencies.map((id) => relation(spdxId(idOf(one)), "DEPENDS_ON", spdxId(id)))),
    ],
  };
}

/** Source: CycloneDX specification 1.6. */
export function cycloneDx(subject: Subject, { direct, packages }: ProductionPackages): object {
  const refs = new Map(packages.map((one) => [idOf(one), purlOf(one)]));
  const refOf = (id: string): string => refs.get(id) ?? id;
  const own = purlOf(subject);
  const licensed = (expression: string | undefined): object =>
    expression === undefined ? {} : { licenses: [{ expression }] };
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(`${idOf(subject)} ${subject.revision}`)}`,
    version: 1,
    metadata: {
      timestamp: seconds(subject.created),
      component: {
        type: "application",
        "bom-ref": own,
        name: subject.name,
        version: subject.version,
        purl: own,
        ...licensed(subject.license),
      },
    },
    components: [
      ...packages.map((one) => ({
        type: "library",
        "bom-ref": purlOf(one),
        name: one.name,
        version: one.version,
        purl: purlOf(one),
        hashes: [{ alg: "SHA-512", content: one.sha512 }],
        ...licensed(subject.licenses.get(idOf(one))),
      })),
      ...subject.parts.map(({ type, name, version, purl, license, sha256 }) => ({
        type,
        "bom-ref": purl,
        name,
        version,
        purl,
        ...(sha256 !== undefined && { hashes: [{ alg: "SHA-256", content: sha256 }] }),
        ...licensed(license === "NOASSERTION" ? undefined : license),
      })),
    ],
    dependencies: [
      { ref: own, dependsOn: [...direct.map(refOf), ...subject.parts.map(({ purl }) => purl)] },
      ...packages.map((one) => ({ ref: purlOf(one), dependsOn: one.dependencies.map(refOf) })),
    ],
  };
}

/** A UUID of version 8, made of a text: the same for the same text. */
function uuidOf(text: string): string {
  const hash = createHash("sha256").update(text).digest("hex");
  const variant = ((Number.parseInt(hash.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-${variant}${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}
