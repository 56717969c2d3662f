import { join } from "node:path";

/** By this variable a run of all tests passes on the program of its hosts: the bundled one of the image. */
export const hostMainVariable = "TEST_HOST_MAIN";

/**
 * `main.ts` of the hosts that tests start. Without the variable it is this checkout's: a file that runs by itself tests the
 * sources as they are now.
 */
export const hostMain = (): string => process.env[hostMainVariable] ?? join(import.meta.dir, "../../host/main.ts");
