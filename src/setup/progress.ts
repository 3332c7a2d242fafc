const heartbeatMs = 20000;

/** One line a step on standard error, so that standard output stays free for whatever setup is a part of. */
export class Progress {
  private current = 0;

  constructor(
    private readonly total: number,
    private readonly stream: NodeJS.WriteStream = process.stderr,
  ) {}

  /** Runs one step: shows its title, the seconds so far with the latest line of `report`, and the time it took. */
  async step<T>(title: string, work: (report: (line: string) => void) => Promise<T> | T): Promise<T> {
    const label = `[${++this.current}/${this.total}] ${title}`;
    const start = Date.now();
    const seconds = () => Math.round((Date.now() - start) / 1000);
    let latest = '';
    const terminal = this.stream.isTTY;
    const show = () => {
      const text = `${label} ... ${seconds()} s  ${latest}`;
      if (terminal) this.stream.write(`\r\x1b[K${text.slice(0, (this.stream.columns || 80) - 1)}`);
      else this.stream.write(`      ${seconds()} s  ${latest}\n`);
    };
    if (terminal) show();
    else this.stream.write(`${label} ...\n`);
    const timer = setInterval(show, terminal ? 1000 : heartbeatMs);
    try {
      const result = await work((line) => {
        latest = line;
        if (terminal) show();
      });
      if (terminal) this.stream.write('\r\x1b[K');
      if (terminal || seconds() > 0) this.stream.write(`${label}: done in ${seconds()} s\n`);
      return result;
    } catch (error) {
      if (terminal) this.stream.write(`\r\x1b[K${label}: failed\n`);
      throw error;
    } finally {
      clearInterval(timer);
    }
  }

  say(line: string): void {
    this.stream.write(`${this.stream.isTTY ? '\r\x1b[K' : ''}${line}\n`);
  }
}
