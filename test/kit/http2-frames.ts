/** An HTTP/2 frame, which need not be valid. */
export const frame = (type: number, flags: number, stream: number, payload: Uint8Array = new Uint8Array()): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
/** The start of a connection, with settings. */
export const preface = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0)]);
/** `:method GET`, `:scheme https`, `:path /` and an authority, by HPACK's static table. */
export const headers = Buffer.concat([Buffer.from([0x82, 0x87, 0x84, 0x41, 1]), Buffer.from("x")]);
