//! Connections with a minimum speed: a client that takes hardly anything for too long is dropped, and with it the answer that it
//! holds in memory.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Minimum bytes that a client must take within the time, unless fewer are left. Else a client that takes a byte now and then
/// would hold its answer for ever.
const PROGRESS_BYTES: usize = 16 * 1024;

/// Connection with a limited wait for writes.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    within: Duration,
    /// End of the wait, and whether it is waiting at all.
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
    /// Bytes taken since it began to wait.
    taken: usize,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, deadline: Box::pin(sleep(within)), is_waiting: false, taken: 0 }
    }

    /// Judges a try to write: returns its result, or an error if the wait was too long.
    fn judge(
        &mut self,
        tried: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match tried {
            Poll::Ready(Ok(bytes)) => {
                self.taken += bytes;
                if self.taken >= PROGRESS_BYTES {
                    self.is_waiting = false;
                }
                tried
            }
            Poll::Ready(Err(_)) => tried,
            Poll::Pending => {
                if !self.is_waiting {
                    self.is_waiting = true;
                    self.taken = 0;
                    let deadline = Instant::now() + self.within;
                    self.deadline.as_mut().reset(deadline);
                }
                match self.deadline.as_mut().poll(context) {
                    Poll::Ready(()) => {
                        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(tried, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(tried, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A flush comes after everything was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.is_waiting = false;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_dropped() {
        let (server, _client) = duplex(1_000);
        let began = Instant::now();
        let error = Patient::new(server, WITHIN).write_all(&[0; 2_000]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, WITHIN));
    }

    #[tokio::test(start_paused = true)]
    async fn trickling_reader_is_dropped_but_slow_one_kept() {
        for (bytes_a_second, is_dropped) in [(10, true), (1_000, false)] {
            let (server, mut client) = duplex(1_000);
            let reading = tokio::spawn(async move {
                let mut taken = vec![0; bytes_a_second];
                while client.read_exact(&mut taken).await.is_ok() {
                    sleep(Duration::from_secs(1)).await;
                }
            });
            let written = Patient::new(server, WITHIN).write_all(&[0; 200_000]).await;
            assert_eq!(written.is_err(), is_dropped, "{bytes_a_second} bytes a second");
            reading.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_rest_between_answers() {
        let (server, mut client) = duplex(1_000);
        let mut server = Patient::new(server, WITHIN);
        for _ in 0..3 {
            let (written, read) = tokio::join!(server.write_all(&[0; 1_500]), async {
                sleep(WITHIN / 2).await;
                client.read_exact(&mut [0; 1_500]).await
            });
            written.unwrap();
            read.unwrap();
            server.flush().await.unwrap();
            sleep(WITHIN * 2).await;
        }
    }
}
