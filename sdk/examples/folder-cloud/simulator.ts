import { join } from "node:path";

import type { CloudSimulator, SimulateOptions } from "cloud-controller-host/sdk";

import { FolderBackend } from "./backend.ts";
import type { FolderInstance } from "./cloud.ts";

/** For this cloud a simulator is a folder with instances in it. */
export function simulateFolder({ directory }: SimulateOptions): Promise<CloudSimulator> {
  const backend = new FolderBackend(directory);
  let created = 0;
  const change = async (nodeName: string, changes: Partial<FolderInstance>): Promise<void> => {
    const instance = await backend.get<FolderInstance>("instances", nodeName);
    if (instance !== undefined) await backend.put("instances", nodeName, { ...instance, ...changes });
  };
  return Promise.resolve({
    cloudConfig: `directory: ${JSON.stringify(directory)}\n`,
    addInstances: (count) =>
      Promise.all(
        Array.from({ length: count }, async () => {
          const number = created++;
          const nodeName = `folder-${number}`;
          const internalIP = `10.1.${number >> 8}.${number & 255}`;
          const instance: FolderInstance = {
            internalIP,
            type: "small",
            zone: `here-${1 + (number % 3)}`,
            region: "here",
          };
          await backend.put("instances", nodeName, instance);
          return { nodeName, internalIP };
        }),
      ),
    removeInstance: (nodeName) => backend.delete("instances", nodeName),
    setPowerState: (nodeName, state) => change(nodeName, { shutdown: state !== "running" }),
    requests: () => [],
    describe: () => [`Folder cloud in ${join(directory, "instances")}: one JSON file per VM, to be edited by hand`],
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
}
