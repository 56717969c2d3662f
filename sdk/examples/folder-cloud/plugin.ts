import { decode, defineCloud, type Static, Type } from "cloud-controller-host/sdk";

import { FolderBackend } from "./backend.ts";
import { folderCloud } from "./cloud.ts";
import { simulateFolder } from "./simulator.ts";

const configSchema = Type.Object(
  { directory: Type.String({ minLength: 1, description: "Folder with instances/, load-balancers/ and routes/." }) },
  { additionalProperties: false },
);

/** A cloud whose resources are JSON files in a folder. */
export default defineCloud<Static<typeof configSchema>>({
  name: "folder",
  configSchema,
  decode: (document) => decode(configSchema, document),
  create: ({ directory }, { fence }) => Promise.resolve(folderCloud(new FolderBackend(directory), fence)),
  simulate: simulateFolder,
});
