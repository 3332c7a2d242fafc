import { existsSync, lstatSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { SetupError } from './errors';
import type { Flavour } from './options';

/** The installed tfjs package whose backend 'tensorflow' is being set up. */
export interface TfjsPackage {
  name: string;
  version: string;
  /** Its folder, symbolic links resolved. */
  folder: string;
  /** The node_modules folder that holds it. */
  modules: string;
}

const names = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'];

/**
 * Finds @tensorflow/tfjs-node-gpu, else @tensorflow/tfjs-node: as the app in `cwd` sees it, else as this package does.
 * @throws SetupError when neither is installed
 */
export function findTfjs(cwd: string, ownFolder: string): TfjsPackage {
  for (const from of [cwd, ownFolder]) {
    const resolver = createRequire(join(from, 'package.json'));
    for (const name of names) {
      let manifest: string;
      try {
        manifest = resolver.resolve(`${name}/package.json`);
      } catch {
        continue;
      }
      const folder = realpathSync(dirname(manifest));
      const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
      return { name, version, folder, modules: dirname(dirname(folder)) };
    }
  }
  throw new SetupError(
    `@tensorflow/tfjs-node-gpu is not installed in ${cwd}: run 'npm install --ignore-scripts @tensorflow/tfjs-node-gpu' there first.`,
  );
}

/** Where CMake puts tfjs's binding, and where tfjs looks for it on every Node.js since version 12. */
export function bindingPath(tfjs: TfjsPackage): string {
  return join(tfjs.folder, 'lib', 'napi-v8', 'tfjs_binding.node');
}

/** The library names in tfjs's deps/lib, and the files of TensorFlow's wheel they stand for. */
const libraryLinks = {
  'libtensorflow_cc.so.2': 'libtensorflow_cc.so.2',
  'libtensorflow.so': 'libtensorflow_cc.so.2',
  'libtensorflow_framework.so.2': 'libtensorflow_framework.so.2',
  'libtensorflow_framework.so': 'libtensorflow_framework.so.2',
};

/** Links that `linkTensorflow` makes; with each, the place it leads to. */
export function tensorflowLinks(tfjs: TfjsPackage, tensorflow: string, flavour: Flavour): Map<string, string> {
  const links = new Map<string, string>();
  for (const [link, file] of Object.entries(libraryLinks)) {
    links.set(join(tfjs.folder, 'deps', 'lib', link), join(tensorflow, 'tensorflow', file));
  }
  // TensorFlow's libraries look for CUDA's in ../nvidia beside the folder that they were loaded from, links not resolved
  if (flavour === 'cuda') links.set(join(tfjs.folder, 'deps', 'nvidia'), join(tensorflow, 'nvidia'));
  return links;
}

/** Lets tfjs find TensorFlow's libraries, and those of CUDA, without copying them. */
export function linkTensorflow(tfjs: TfjsPackage, tensorflow: string, flavour: Flavour): void {
  const nvidia = join(tfjs.folder, 'deps', 'nvidia');
  if (flavour === 'cpu' && lstatSync(nvidia, { throwIfNoEntry: false })?.isSymbolicLink()) rmSync(nvidia);
  for (const [link, target] of tensorflowLinks(tfjs, tensorflow, flavour)) {
    mkdirSync(dirname(link), { recursive: true });
    const fresh = `${link}.${process.pid}`;
    symlinkSync(relative(dirname(link), target), fresh);
    // a link replaces a file or a link in one move, but not a folder
    if (lstatSync(link, { throwIfNoEntry: false })?.isDirectory()) rmSync(link, { recursive: true });
    renameSync(fresh, link);
  }
}

/** Whether every link is there and leads to a file. */
export function linksIntact(links: Map<string, string>): boolean {
  return [...links].every(([link, target]) => existsSync(link) && realpathSync(link) === realpathSync(target));
}
