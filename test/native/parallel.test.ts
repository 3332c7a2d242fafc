/** How many threads the CPU kernels take. */
import { NativeProgram } from './native_program';

async function threads(setting: string | undefined): Promise<{ most: number; cores: number; least: number }> {
  const program = new NativeProgram('parallel_test', [], { TF_NUM_INTRAOP_THREADS: setting });
  const line = await program.next();
  const [most, cores, least] = (line?.match(/\d+/g) ?? []).map(Number);
  return { most, cores, least };
}

it.each(['1', '2', '5'])('takes at most TF_NUM_INTRAOP_THREADS=%s, as TensorFlow does', async (setting) => {
  expect(await threads(setting)).toMatchObject({ most: Number(setting), least: 1 });
});

it.each([undefined, '0', '-1', 'many', '1 or so'])('takes one a core for %s, as TensorFlow does', async (setting) => {
  const { most, cores, least } = await threads(setting);
  expect([most, least]).toEqual([Math.max(1, cores), 1]);
});
