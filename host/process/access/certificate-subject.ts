import { CodedError } from "cloud-controller-host/sdk";

/** What a client certificate's subject says to Kubernetes: CN is the user, each O a group. */
export interface CertificateSubject {
  readonly commonName: string | undefined;
  readonly organizations: readonly string[];
  readonly uids: readonly string[];
}

/** Object identifiers in hex; the last is Kubernetes' own, 1.3.6.1.4.1.57683.2. */
const commonNameId = "550403";
const organizationId = "55040a";
const uidId = "2b0601040183c25302";

const tags = { objectId: 0x06, bmpString: 0x1e, sequence: 0x30, set: 0x31, version: 0xa0 } as const;

/** One element of DER: its tag and where its content lies. */
interface Element {
  readonly tag: number;
  readonly content: Uint8Array;
  /** Bytes from the element's beginning to the next one. */
  readonly length: number;
}

const malformed = (): CodedError => new CodedError("InvalidCertificate", "the certificate is no valid DER");

/**
 * Reads the subject of a DER certificate. Node shows it as text only, in which a value with a line break in it would
 * read as several. Throws `InvalidCertificate`. Source of the layout: RFC 5280, section 4.1.
 */
export function subjectOf(certificate: Uint8Array): CertificateSubject {
  const [toBeSigned] = children(elementAt(certificate).content);
  if (toBeSigned === undefined) throw malformed();
  const fields = children(toBeSigned.content);
  // serial number, algorithm, issuer, validity, subject; the version before them may be absent.
  const subject = fields[fields[0]?.tag === tags.version ? 5 : 4];
  if (subject?.tag !== tags.sequence) throw malformed();
  const attributes = children(subject.content).flatMap((set) => children(set.content).map(attributeOf));
  const valuesOf = (id: string): readonly string[] =>
    attributes.filter((attribute) => attribute.id === id).map(({ value }) => value);
  return {
    commonName: valuesOf(commonNameId).at(-1),
    organizations: valuesOf(organizationId),
    uids: valuesOf(uidId),
  };
}

function attributeOf({ content }: Element): { readonly id: string; readonly value: string } {
  const [id, value] = children(content);
  if (id?.tag !== tags.objectId || value === undefined) throw malformed();
  return { id: Buffer.from(id.content).toString("hex"), value: textOf(value) };
}

function textOf({ tag, content }: Element): string {
  if (tag !== tags.bmpString) return Buffer.from(content).toString("utf8");
  return Buffer.from(content).swap16().toString("utf16le");
}

function children(content: Uint8Array): readonly Element[] {
  const found: Element[] = [];
  for (let rest = content; rest.length > 0;) {
    const element = elementAt(rest);
    found.push(element);
    rest = rest.subarray(element.length);
  }
  return found;
}

function elementAt(bytes: Uint8Array): Element {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined || first === 0x80) throw malformed();
  const extra = first < 0x80 ? 0 : first & 0x7f;
  if (extra > 4 || bytes.length < 2 + extra) throw malformed();
  let size = extra === 0 ? first : 0;
  for (const byte of bytes.subarray(2, 2 + extra)) size = size * 256 + byte;
  const length = 2 + extra + size;
  if (bytes.length < length) throw malformed();
  return { tag, content: bytes.subarray(2 + extra, length), length };
}
