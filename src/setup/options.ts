import { SetupError } from './errors';

export type Flavour = 'cpu' | 'cuda';

/** What a user asked for; whatever is left out is chosen by `makePlan`. */
export interface SetupOptions {
  flavour?: Flavour;
  tensorflow?: string;
  cudaKernels?: boolean;
  /** Compute capabilities without their dots, ascending; see `parseArchitectures`. */
  architectures?: string[];
}

/** What setup will do, every choice made. */
export interface Plan {
  flavour: Flavour;
  tensorflow: string;
  cudaKernels: boolean;
  architectures: 'native' | string[];
}

/** The TensorFlow that this package is tested with; requirements/ holds its hashes. */
export const pinnedTensorflow = '2.21.0';
/** What an installed package builds for where there is no GPU to ask: Ampere to Blackwell, and PTX of the last for later ones. */
export const allArchitectures = ['80', '86', '89', '90', '100', '120'];
/** What a checkout builds for there: enough to see that each way through the code compiles, in a third of the time. */
export const checkoutArchitectures = ['80', '90'];

/** What commander hands over for `setup`. */
export interface RawOptions {
  cpu?: boolean;
  cuda?: boolean;
  tensorflow?: string;
  cudaKernels?: boolean;
  architectures?: string;
}

/**
 * Checks the options of the command line.
 * @throws SetupError for --cpu with --cuda, a version that is none, an architecture that is none.
 */
export function parseOptions(raw: RawOptions): SetupOptions {
  if (raw.cpu && raw.cuda) throw new SetupError('--cpu and --cuda exclude each other: pass one of them.');
  const options: SetupOptions = {};
  if (raw.cpu) options.flavour = 'cpu';
  if (raw.cuda) options.flavour = 'cuda';
  if (raw.cudaKernels) options.cudaKernels = true;
  if (raw.tensorflow !== undefined) {
    if (!/^\d+\.\d+(\.\d+)?([a-z0-9.]*)$/.test(raw.tensorflow)) {
      throw new SetupError(`--tensorflow must be a version such as ${pinnedTensorflow}, but got '${raw.tensorflow}'.`);
    }
    options.tensorflow = raw.tensorflow;
  }
  if (raw.architectures !== undefined) options.architectures = parseArchitectures(raw.architectures);
  return options;
}

/**
 * '8.0, 90' -> ['80', '90'], and 'all' -> those of a package.
 * @throws SetupError for anything that is not a list of compute capabilities from 7.5 on.
 */
export function parseArchitectures(list: string): string[] {
  if (list === 'all') return [...allArchitectures];
  const parts = list.split(/[,;\s]+/).filter((part) => part !== '');
  const numbers = parts.map((part) => (/^\d+\.?\d$/.test(part) ? Number(part.replace('.', '')) : NaN));
  if (parts.length === 0 || numbers.some((number) => !(number >= 75 && number < 1000))) {
    throw new SetupError(
      `--architectures must list compute capabilities of 75 or more, such as 80,90, but got '${list}'.`,
    );
  }
  return [...new Set(numbers)].sort((a, b) => a - b).map(String);
}

/**
 * Makes every choice that the user left open. Without --cpu or --cuda, the options of the last setup still hold, so that
 * `npm run demo` does not undo `npm run setup -- --cuda`; either of the two starts over.
 */
export function makePlan(
  asked: SetupOptions,
  last: SetupOptions,
  hasGpu: boolean,
  isCheckout: boolean,
): { plan: Plan; userOptions: SetupOptions } {
  const userOptions: SetupOptions = asked.flavour ? asked : { ...last, ...asked };
  const flavour = userOptions.flavour ?? (hasGpu ? 'cuda' : 'cpu');
  const withoutGpu = isCheckout ? checkoutArchitectures : allArchitectures;
  const plan: Plan = {
    flavour,
    tensorflow: userOptions.tensorflow ?? pinnedTensorflow,
    cudaKernels: userOptions.cudaKernels === true || flavour === 'cuda',
    architectures: userOptions.architectures ?? (hasGpu ? 'native' : withoutGpu),
  };
  return { plan, userOptions };
}
